// Python bindings. Names, arguments and returns are those of tensormend/kernels/reference.py.
//
// Lengths, shapes, dtypes and the coordinates of the nodes are checked here. The lead-mode
// coordinates are not: reading all of them once more would slow a pass down noticeably, and
// Fibres.build has checked them. Nor is it checked that the children of a node differ.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "loops.hpp"
#include "modes.hpp"
#include "parallel.hpp"
#include "sort.hpp"
#include "text.hpp"
#include "tucker.hpp"
#include "values.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace tensormend;

namespace {

// Converts to C order where needed but never to another dtype.
using View = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

template <class T>
struct Type;
template <>
struct Type<uint8_t> {
    static constexpr auto name = "uint8";
    static constexpr auto dtype = nb::dtype<uint8_t>();
};
template <>
struct Type<uint16_t> {
    static constexpr auto name = "uint16";
    static constexpr auto dtype = nb::dtype<uint16_t>();
};
template <>
struct Type<uint32_t> {
    static constexpr auto name = "uint32";
    static constexpr auto dtype = nb::dtype<uint32_t>();
};
template <>
struct Type<int32_t> {
    static constexpr auto name = "int32";
    static constexpr auto dtype = nb::dtype<int32_t>();
};
template <>
struct Type<int64_t> {
    static constexpr auto name = "int64";
    static constexpr auto dtype = nb::dtype<int64_t>();
};
template <>
struct Type<float> {
    static constexpr auto name = "float32";
    static constexpr auto dtype = nb::dtype<float>();
};
template <>
struct Type<double> {
    static constexpr auto name = "float64";
    static constexpr auto dtype = nb::dtype<double>();
};
template <>
struct Type<Complex<float>> {
    static constexpr auto name = "complex64";
    static constexpr nb::dlpack::dtype dtype{uint8_t(nb::dlpack::dtype_code::Complex), 64, 1};
};
template <>
struct Type<Complex<double>> {
    static constexpr auto name = "complex128";
    static constexpr nb::dlpack::dtype dtype{uint8_t(nb::dlpack::dtype_code::Complex), 128, 1};
};

void expect(bool is_met, const std::string& message) {
    if (!is_met) throw nb::value_error(message.c_str());
}

std::string numbered(const char* name, size_t k) {
    return std::string(name) + "[" + std::to_string(k) + "]";
}

std::string dtype_name(nb::handle array) {
    const nb::object dtype = array.attr("dtype");
    return nb::str(nb::handle(dtype)).c_str();
}

View as_view(nb::handle object, const std::string& name) {
    View view;
    if (!nb::try_cast(object, view))
        throw nb::type_error((name + " must be a NumPy array of a numeric dtype").c_str());
    return view;
}

// An array whose dtype and number of dimensions have been checked, kept alive while in use.
template <class T>
class Array {
public:
    Array(nb::handle object, const std::string& name, size_t ndim) : view_(as_view(object, name)) {
        if (view_.dtype() != Type<T>::dtype) {
            throw nb::type_error((name + " must have dtype " + Type<T>::name + ", got " +
                                  dtype_name(object))
                                     .c_str());
        }
        expect(view_.ndim() == ndim, name + " must have " + std::to_string(ndim) +
                                         " dimensions, got " + std::to_string(view_.ndim()));
    }

    const T* data() const { return static_cast<const T*>(view_.data()); }
    int64_t shape(size_t k) const { return int64_t(view_.shape(k)); }

private:
    View view_;
};

template <class T>
std::vector<Array<T>> as_arrays(nb::sequence objects, const char* name, size_t ndim) {
    std::vector<Array<T>> arrays;
    for (nb::handle object : objects)
        arrays.emplace_back(object, numbered(name, arrays.size()), ndim);
    return arrays;
}

// NumPy allocates the outputs, so that its own tuning and accounting of memory apply to them.
template <class T>
struct Output {
    nb::object array;
    T* data;

    Output(const char* maker, nb::object shape)
        : array(nb::module_::import_("numpy").attr(maker)(shape, Type<T>::name)),
          data(static_cast<T*>(
              nb::cast<nb::ndarray<nb::c_contig, nb::device::cpu>>(array).data())) {}

    static Output empty(int64_t size) { return Output("empty", nb::int_(size)); }
    static Output zeros(int64_t rows, int64_t columns) {
        return Output("zeros", nb::make_tuple(rows, columns));
    }
};

template <class T>
void expect_below(const Array<T>& indices, int64_t bound, const std::string& name) {
    const T* const begin = indices.data();
    const T* const end = begin + indices.shape(0);
    bool is_beyond = false;  // as unsigned numbers negative ones are beyond any bound
    for (const T* i = begin; i != end; ++i) is_beyond |= uint64_t(*i) >= uint64_t(bound);
    if (!is_beyond) return;
    const auto range = std::minmax_element(begin, end);
    expect(false, name + " must lie between 0 and " + std::to_string(bound - 1) + ", got " +
                      std::to_string(*range.first) + " to " + std::to_string(*range.second));
}

void expect_starts(const Array<int64_t>& starts, int64_t n_nodes, int64_t n_children,
                   const std::string& name) {
    expect(starts.shape(0) == n_nodes + 1, name + " must have length " +
                                               std::to_string(n_nodes + 1) +
                                               ", one more than it has nodes, got " +
                                               std::to_string(starts.shape(0)));
    expect(starts.data()[0] == 0 && starts.data()[n_nodes] == n_children,
           name + " must begin with 0 and end with the number of children, " +
               std::to_string(n_children));
}

template <class T>
void expect_rows(const Array<T>& matrix, int64_t rank, const std::string& name) {
    expect(matrix.shape(1) == rank, name + " must have " + std::to_string(rank) +
                                        " columns, got " + std::to_string(matrix.shape(1)));
}

// Measurements in the type of the sums or, for double precision, in half of it.
template <class T>
class ValueArray {
public:
    ValueArray(nb::handle object, int64_t n_entries) : view_(as_view(object, "y")) {
        using Half = typename HalfOf<T>::type;
        if (view_.dtype() != Type<T>::dtype && view_.dtype() != Type<Half>::dtype) {
            throw nb::type_error((std::string("y must have dtype ") + Type<T>::name +
                                  ", as the factors have, or half of it, got " +
                                  dtype_name(object))
                                     .c_str());
        }
        expect(view_.ndim() == 1,
               "y must have 1 dimensions, got " + std::to_string(view_.ndim()));
        expect(int64_t(view_.shape(0)) == n_entries,
               "y must have one value for each of the " + std::to_string(n_entries) +
                   " leaves, got " + std::to_string(view_.shape(0)));
        if (view_.dtype() == Type<T>::dtype)
            values.whole = static_cast<const T*>(view_.data());
        else
            values.half = static_cast<const Half*>(view_.data());
    }

    Values<T> values;

private:
    View view_;
};

void expect_threads(int64_t threads) {
    expect(threads >= 1, "threads must be 1 or more, got " + std::to_string(threads));
}

// Call function(T{}) for the value type T of an array.
template <class Function>
nb::object dispatch_values(nb::handle values, const char* name, const Function& function) {
    const auto dtype = as_view(values, name).dtype();
    if (dtype == Type<float>::dtype) return function(float{});
    if (dtype == Type<double>::dtype) return function(double{});
    if (dtype == Type<Complex<float>>::dtype) return function(Complex<float>{});
    if (dtype == Type<Complex<double>>::dtype) return function(Complex<double>{});
    throw nb::type_error((std::string(name) + " must have dtype float32, float64, complex64 or " +
                          "complex128, got " + dtype_name(values))
                             .c_str());
}

// Call function(T{}, I{}) for the value type T of an array and the type I of the leaves.
template <class Function>
nb::object dispatch(nb::handle values, const char* name, nb::handle leaves,
                    const Function& function) {
    const auto dtype = as_view(leaves, "leaves").dtype();
    if (dtype == Type<uint16_t>::dtype)
        return dispatch_values(values, name, [&](auto type) { return function(type, uint16_t{}); });
    if (dtype == Type<uint32_t>::dtype)
        return dispatch_values(values, name, [&](auto type) { return function(type, uint32_t{}); });
    throw nb::type_error(
        ("leaves must have dtype uint16 or uint32, got " + dtype_name(leaves)).c_str());
}

// Core and factors, kept alive while in use.
template <class T>
struct TuckerArguments {
    std::vector<Array<T>> factors;
    Array<T> core;
    TuckerTensor<T> tensor;

    TuckerArguments(nb::handle core_object, nb::sequence factor_objects,
                    const char* core_name = "core", const char* factors_name = "factors")
        : factors(as_arrays<T>(factor_objects, factors_name, 2)),
          core(core_object, core_name, factors.size()) {
        expect(factors.size() >= 2, std::string(factors_name) +
                                        " must have 2 matrices or more, got " +
                                        std::to_string(factors.size()));
        tensor.core = core.data();
        for (size_t k = 0; k < factors.size(); ++k) {
            expect(core.shape(k) >= 1, std::string(core_name) + " must not be empty");
            expect_rows(factors[k], core.shape(k), numbered(factors_name, k));
            tensor.factors.push_back({factors[k].data(), factors[k].shape(0), core.shape(k)});
        }
    }
};

template <class I>
struct TreeArguments {
    std::vector<Array<uint32_t>> nodes;
    std::vector<Array<int64_t>> starts;
    Array<I> leaves;
    Tree<I> tree;

    template <class T>
    TreeArguments(nb::sequence node_objects, nb::sequence start_objects, nb::handle leaf_object,
                  const TuckerTensor<T>& x)
        : nodes(as_arrays<uint32_t>(node_objects, "nodes", 1)),
          starts(as_arrays<int64_t>(start_objects, "starts", 1)),
          leaves(leaf_object, "leaves", 1) {
        expect_levels("nodes", nodes.size(), x.factors.size());
        expect_levels("starts", starts.size(), x.factors.size());
        tree.leaves = leaves.data();
        for (size_t l = 0; l < nodes.size(); ++l) {
            const int64_t n_nodes = nodes[l].shape(0);
            const int64_t n_children =
                l + 1 < nodes.size() ? nodes[l + 1].shape(0) : leaves.shape(0);
            expect_starts(starts[l], n_nodes, n_children, numbered("starts", l));
            expect_below(nodes[l], x.factors[l].n_rows, numbered("nodes", l));
            tree.levels.push_back({nodes[l].data(), starts[l].data(), n_nodes});
        }
    }

private:
    static void expect_levels(const char* name, size_t found, size_t n_factors) {
        expect(found + 1 == n_factors,
               std::string(name) + " must have one level less than there are factors, " +
                   std::to_string(n_factors - 1) + ", got " + std::to_string(found));
    }
};

nb::object tucker_values_of(nb::sequence nodes, nb::sequence starts, nb::object leaves,
                            nb::object core, nb::sequence factors, int64_t threads) {
    return dispatch(core, "core", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const TuckerArguments<T> x(core, factors);
        const TreeArguments<I> at(nodes, starts, leaves, x.tensor);
        expect_threads(threads);
        const auto out = Output<T>::empty(at.leaves.shape(0));
        {
            const nb::gil_scoped_release release;
            Job<T, I> job{Task::values, at.tree, x.tensor};
            job.out = out.data;
            tucker_values(job, threads);
        }
        return out.array;
    });
}

nb::object tucker_energy_of(nb::sequence nodes, nb::sequence starts, nb::object leaves,
                            nb::object core, nb::sequence factors, int64_t threads) {
    return dispatch(core, "core", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const TuckerArguments<T> x(core, factors);
        const TreeArguments<I> at(nodes, starts, leaves, x.tensor);
        expect_threads(threads);
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = tucker_values<T, I>({Task::values, at.tree, x.tensor}, threads);
        }
        return nb::float_(square);
    });
}

// The gradient with respect to core and factors, as NumPy arrays.
template <class T>
struct GradientArrays {
    Output<T> core;
    nb::list factors;
    Sums<T> sums;

    GradientArrays(nb::handle core_object, const TuckerTensor<T>& x)
        : core("zeros", core_object.attr("shape")) {
        sums.core = core.data;
        for (const auto& factor : x.factors) {
            const auto gradient = Output<T>::zeros(factor.n_rows, factor.rank);
            sums.factors.push_back(gradient.data);
            factors.append(gradient.array);
        }
    }
};

nb::object tucker_pullback_of(nb::sequence nodes, nb::sequence starts, nb::object leaves,
                              nb::object y, nb::object core, nb::sequence factors,
                              bool want_residual, bool subtract, int64_t threads) {
    return dispatch(core, "core", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const TuckerArguments<T> x(core, factors);
        const TreeArguments<I> at(nodes, starts, leaves, x.tensor);
        const ValueArray<T> values(y, at.leaves.shape(0));
        expect_threads(threads);
        const GradientArrays<T> gradient(core, x.tensor);
        const Task task = subtract ? Task::residual : Task::data;
        Job<T, I> job{task, at.tree, x.tensor};
        job.y = values.values;
        nb::object residual = nb::none();
        if (want_residual) {
            const auto out = Output<T>::empty(at.leaves.shape(0));
            residual = out.array;
            job.out = out.data;
        }
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = tucker_pullback(job, gradient.sums, threads);
        }
        return nb::make_tuple(square, gradient.core.array, gradient.factors, residual);
    });
}

// A tensor and what its core and factors move by.
template <class T>
struct TangentArguments {
    TuckerArguments<T> x, step;

    TangentArguments(nb::handle core, nb::sequence factors, nb::handle step_core,
                     nb::sequence step_factors)
        : x(core, factors), step(step_core, step_factors, "step_core", "step_factors") {
        expect(step.factors.size() == x.factors.size(),
               "step_factors must be as many as factors, " + std::to_string(x.factors.size()) +
                   ", got " + std::to_string(step.factors.size()));
        for (size_t k = 0; k < x.factors.size(); ++k) {
            expect(step.factors[k].shape(0) == x.factors[k].shape(0) &&
                       step.factors[k].shape(1) == x.factors[k].shape(1),
                   numbered("step_factors", k) + " must have the shape of " +
                       numbered("factors", k));
        }
    }
};

nb::object tangent_energy_of(nb::sequence nodes, nb::sequence starts, nb::object leaves,
                             nb::object core, nb::sequence factors, nb::object step_core,
                             nb::sequence step_factors, int64_t threads) {
    return dispatch(core, "core", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const TangentArguments<T> in(core, factors, step_core, step_factors);
        const TreeArguments<I> at(nodes, starts, leaves, in.x.tensor);
        expect_threads(threads);
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = tucker_values<T, I>({Task::tangent, at.tree, in.x.tensor, in.step.tensor},
                                         threads);
        }
        return nb::float_(square);
    });
}

nb::object tucker_normal_of(nb::sequence nodes, nb::sequence starts, nb::object leaves,
                            nb::object core, nb::sequence factors, nb::object step_core,
                            nb::sequence step_factors, int64_t threads) {
    return dispatch(core, "core", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const TangentArguments<T> in(core, factors, step_core, step_factors);
        const TreeArguments<I> at(nodes, starts, leaves, in.x.tensor);
        expect_threads(threads);
        const GradientArrays<T> gradient(core, in.x.tensor);
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = tucker_pullback<T, I>({Task::normal, at.tree, in.x.tensor, in.step.tensor},
                                           gradient.sums, threads);
        }
        return nb::make_tuple(square, gradient.core.array, gradient.factors);
    });
}

// The entries as a matrix with one column per fibre.
template <class I>
struct FibreArguments {
    Array<int64_t> columns, starts;
    Array<I> leaves;
    FibreList<I> list;

    FibreArguments(nb::handle column_object, nb::handle start_object, nb::handle leaf_object,
                   int64_t n_columns)
        : columns(column_object, "columns", 1),
          starts(start_object, "starts", 1),
          leaves(leaf_object, "leaves", 1),
          list{columns.data(), starts.data(), leaves.data(), columns.shape(0)} {
        expect_starts(starts, columns.shape(0), leaves.shape(0), "starts");
        expect_below(columns, n_columns, "columns");
    }
};

// Two panels whose product left @ right.T is a matrix of that kind.
template <class T>
struct PanelArguments {
    Array<T> left, right;

    PanelArguments(nb::handle left_object, nb::handle right_object)
        : left(left_object, "left", 2), right(right_object, "right", 2) {
        expect_rows(right, left.shape(1), "right");
    }
    int64_t rank() const { return left.shape(1); }
};

// Panels with equally many rows, kept alive while in use.
template <class T>
struct TallArguments {
    std::vector<Array<T>> arrays;
    std::vector<Panel<T>> panels;

    TallArguments(nb::sequence objects, const char* name) : arrays(as_arrays<T>(objects, name, 2)) {
        expect(!arrays.empty(), std::string(name) + " must hold at least one matrix, got none");
        for (size_t k = 0; k < arrays.size(); ++k) {
            expect(arrays[k].shape(0) == n_rows(), numbered(name, k) + " must have " +
                                                       std::to_string(n_rows()) +
                                                       " rows as the first has, got " +
                                                       std::to_string(arrays[k].shape(0)));
            panels.push_back({arrays[k].data(), arrays[k].shape(1)});
        }
    }
    int64_t n_rows() const { return arrays[0].shape(0); }
};

// A matrix left @ right.T, the panels of `rights` standing side by side.
template <class T>
struct ProductArguments {
    Array<T> left;
    TallArguments<T> right;
    RowsBeside<T> rows;

    ProductArguments(nb::handle left_object, nb::sequence rights)
        : left(left_object, "left", 2), right(rights, "rights"), rows(right.panels) {
        expect(rows.width() == left.shape(1), "rights must have " +
                                                  std::to_string(left.shape(1)) +
                                                  " columns together, as left has, got " +
                                                  std::to_string(rows.width()));
    }
};

nb::object mode_values_of(nb::object columns, nb::object starts, nb::object leaves,
                          nb::object left, nb::sequence rights, int64_t threads) {
    return dispatch(left, "left", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const ProductArguments<T> in(left, rights);
        const FibreArguments<I> at(columns, starts, leaves, in.right.n_rows());
        expect_threads(threads);
        const auto out = Output<T>::empty(at.leaves.shape(0));
        {
            const nb::gil_scoped_release release;
            mode_values(at.list, in.left.data(), in.rows, out.data, threads);
        }
        return out.array;
    });
}

nb::object mode_energy_of(nb::object columns, nb::object starts, nb::object leaves,
                          nb::object left, nb::sequence rights, int64_t threads) {
    return dispatch(left, "left", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const ProductArguments<T> in(left, rights);
        const FibreArguments<I> at(columns, starts, leaves, in.right.n_rows());
        expect_threads(threads);
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = mode_values<T>(at.list, in.left.data(), in.rows, nullptr, threads);
        }
        return nb::float_(square);
    });
}

nb::object mode_pass_of(nb::object columns, nb::object starts, nb::object leaves, nb::object y,
                        nb::object left, nb::object right, nb::object rows, int64_t threads) {
    return dispatch(left, "left", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const PanelArguments<T> in(left, right);
        const FibreArguments<I> at(columns, starts, leaves, in.right.shape(0));
        const ValueArray<T> values(y, at.leaves.shape(0));
        const Array<T> vectors(rows, "rows", 2);
        expect_rows(vectors, in.rank(), "rows");
        expect(vectors.shape(0) == in.right.shape(0),
               "rows must have as many rows as right, " + std::to_string(in.right.shape(0)) +
                   ", got " + std::to_string(vectors.shape(0)));
        expect_threads(threads);
        const int64_t n_lead = in.left.shape(0);
        const auto across = Output<T>::zeros(in.right.shape(0), in.rank());
        const auto along = Output<T>::zeros(n_lead, in.rank());
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = mode_pass(at.list, values.values, in.left.data(), in.right.data(),
                               vectors.data(), n_lead, in.rank(), across.data, along.data,
                               threads);
        }
        return nb::make_tuple(square, across.array, along.array);
    });
}

nb::object fibre_products_of(nb::object columns, nb::object starts, nb::object leaves,
                             nb::object y, nb::object q, int64_t n_columns, int64_t threads) {
    return dispatch(q, "q", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const FibreArguments<I> at(columns, starts, leaves, n_columns);
        const ValueArray<T> values(y, at.leaves.shape(0));
        const Array<T> vectors(q, "q", 2);
        expect_threads(threads);
        const auto out = Output<T>::zeros(n_columns, vectors.shape(1));
        {
            const nb::gil_scoped_release release;
            fibre_products(at.list, values.values, vectors.data(), vectors.shape(1), out.data,
                           threads);
        }
        return out.array;
    });
}

// Fibres whose number among all does not matter.
template <class I>
struct PlainFibres {
    Array<int64_t> starts;
    Array<I> leaves;
    FibreList<I> list;

    PlainFibres(nb::handle start_object, nb::handle leaf_object)
        : starts(start_object, "starts", 1), leaves(leaf_object, "leaves", 1) {
        const int64_t n_fibres = starts.shape(0) - 1;
        expect(n_fibres >= 0, "starts must have at least one element, got none");
        expect_starts(starts, n_fibres, leaves.shape(0), "starts");
        list = {nullptr, starts.data(), leaves.data(), n_fibres};
    }
};

nb::object gram_pass_of(nb::object starts, nb::object leaves, nb::object y, nb::object q,
                        int64_t threads) {
    return dispatch(q, "q", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        const PlainFibres<I> at(starts, leaves);
        const ValueArray<T> values(y, at.leaves.shape(0));
        const Array<T> vectors(q, "q", 2);
        expect_threads(threads);
        const auto out = Output<T>::zeros(vectors.shape(0), vectors.shape(1));
        {
            const nb::gil_scoped_release release;
            gram_pass(at.list, values.values, vectors.data(), vectors.shape(0), vectors.shape(1),
                      out.data, threads);
        }
        return out.array;
    });
}

nb::object leaf_energies_of(nb::object starts, nb::object leaves, nb::object y, int64_t n_lead,
                            int64_t threads) {
    return dispatch(y, "y", leaves, [&](auto type, auto index) -> nb::object {
        using T = decltype(type);
        using I = decltype(index);
        using Real = decltype(squared_size(T{}));
        const PlainFibres<I> at(starts, leaves);
        const ValueArray<T> values(y, at.leaves.shape(0));
        expect_threads(threads);
        const Output<Real> out("zeros", nb::int_(n_lead));
        {
            const nb::gil_scoped_release release;
            leaf_energies(at.list, values.values, n_lead, out.data, threads);
        }
        return out.array;
    });
}

template <class Index>
nb::object split_indices_as(nb::handle indices, const std::vector<int64_t>& bounds,
                            int64_t threads) {
    const Array<Index> rows(indices, "indices", 2);
    expect(size_t(rows.shape(1)) == bounds.size(), "indices must have one column per size");
    nb::list columns;
    std::vector<uint32_t*> out;
    for (size_t k = 0; k < bounds.size(); ++k) {
        const auto column = Output<uint32_t>::empty(rows.shape(0));
        out.push_back(column.data);
        columns.append(column.array);
    }
    int64_t bad = 0;
    {
        const nb::gil_scoped_release release;
        bad = split_rows(rows.data(), rows.shape(0), bounds, out, threads);
    }
    return nb::make_tuple(columns, bad);
}

std::vector<int64_t> expect_bounds(nb::sequence sizes) {
    auto bounds = nb::cast<std::vector<int64_t>>(sizes);
    expect(!bounds.empty(), "sizes must be one or more");
    for (const int64_t bound : bounds)
        expect(bound >= 1 && bound <= int64_t(UINT32_MAX), "sizes must fit 32 bits");
    return bounds;
}

nb::object split_indices_of(nb::object indices, nb::sequence sizes, int64_t threads) {
    const auto bounds = expect_bounds(sizes);
    expect_threads(threads);
    if (as_view(indices, "indices").dtype() == Type<int32_t>::dtype)
        return split_indices_as<int32_t>(indices, bounds, threads);
    return split_indices_as<int64_t>(indices, bounds, threads);
}

// Coordinates of the entries, one column per mode in tree order, below the sizes of the modes.
struct ColumnArguments {
    std::vector<Array<uint32_t>> arrays;
    std::vector<Column> columns;
    int64_t n_rows;

    ColumnArguments(nb::sequence objects, nb::sequence sizes)
        : arrays(as_arrays<uint32_t>(objects, "columns", 1)) {
        const auto bounds = nb::cast<std::vector<int64_t>>(sizes);
        expect(!arrays.empty() && arrays.size() == bounds.size(),
               "columns must be one or more, with one size each");
        n_rows = arrays[0].shape(0);
        for (size_t k = 0; k < arrays.size(); ++k) {
            expect(arrays[k].shape(0) == n_rows, "columns must have one length");
            columns.push_back({arrays[k].data(), bounds[k]});
        }
    }
};

nb::object sort_entries_of(nb::sequence columns, nb::sequence sizes, int64_t threads) {
    const ColumnArguments in(columns, sizes);
    expect_threads(threads);
    bool sorted = false;
    {
        const nb::gil_scoped_release release;
        sorted = is_sorted(in.columns, in.n_rows, threads);
    }
    if (sorted) return nb::none();
    for (size_t k = 0; k < in.arrays.size(); ++k)  // counts are kept for every coordinate
        expect_below(in.arrays[k], in.columns[k].bound, numbered("columns", k));
    const auto permutation = Output<int64_t>::empty(in.n_rows);
    {
        const nb::gil_scoped_release release;
        sort_rows(in.columns, in.n_rows, permutation.data);
    }
    return permutation.array;
}

template <class Number>
nb::list list_levels(const std::vector<std::vector<Number>>& levels) {
    nb::list arrays;
    for (const auto& level : levels) {
        const auto out = Output<Number>::empty(int64_t(level.size()));
        std::copy(level.begin(), level.end(), out.data);
        arrays.append(out.array);
    }
    return arrays;
}

nb::object find_nodes_of(nb::sequence columns, nb::sequence sizes, int64_t threads) {
    const ColumnArguments in(columns, sizes);
    expect_threads(threads);
    Nodes nodes;
    {
        const nb::gil_scoped_release release;
        nodes = find_nodes(in.columns, in.n_rows, threads);
    }
    return nb::make_tuple(list_levels(nodes.opens), nodes.n_repeated, nodes.first_repeated);
}

template <class Index>
nb::object read_tree_as(nb::handle indices, const std::vector<int64_t>& bounds,
                        const std::vector<size_t>& order, int64_t threads) {
    const Array<Index> rows(indices, "indices", 2);
    expect(size_t(rows.shape(1)) == bounds.size(), "indices must have one column per size");
    const auto leaves = Output<uint32_t>::empty(rows.shape(0));
    Nodes nodes;
    bool is_tree = false;
    {
        const nb::gil_scoped_release release;
        is_tree =
            read_tree(rows.data(), rows.shape(0), bounds, order, leaves.data, threads, nodes);
    }
    if (!is_tree) return nb::none();
    return nb::make_tuple(leaves.array, list_levels(nodes.opens), list_levels(nodes.coordinates));
}

nb::object read_tree_of(nb::object indices, nb::sequence sizes, nb::sequence modes,
                        int64_t threads) {
    const auto bounds = expect_bounds(sizes);
    const auto order = nb::cast<std::vector<size_t>>(modes);
    expect(order.size() == bounds.size(), "modes must be one per size");
    for (size_t k = 0; k < order.size(); ++k)
        expect(std::count(order.begin(), order.end(), k) == 1, "modes must name each mode once");
    expect_threads(threads);
    if (as_view(indices, "indices").dtype() == Type<int32_t>::dtype)
        return read_tree_as<int32_t>(indices, bounds, order, threads);
    return read_tree_as<int64_t>(indices, bounds, order, threads);
}

nb::object survey_of(nb::object values, int64_t threads) {
    expect_threads(threads);
    return dispatch_values(values, "values", [&](auto type) -> nb::object {
        using T = decltype(type);
        using Real = typename RealOf<T>::type;
        const Array<T> array(values, "values", 1);
        Survey found;
        {
            const nb::gil_scoped_release release;
            const int64_t n = array.shape(0) * int64_t(sizeof(T) / sizeof(Real));
            found = survey(reinterpret_cast<const Real*>(array.data()), n, threads);
        }
        return nb::make_tuple(found.largest, found.square);
    });
}

nb::object parse_entries_of(nb::object text, nb::sequence sizes, int64_t threads) {
    const auto bounds = expect_bounds(sizes);
    expect_threads(threads);
    const Array<uint8_t> bytes(text, "text", 1);
    std::vector<Piece> pieces;
    int64_t n_rows = 0;
    {
        const nb::gil_scoped_release release;
        n_rows = cut_lines(reinterpret_cast<const char*>(bytes.data()), bytes.shape(0), threads,
                           pieces);
    }
    const Output<uint32_t> places("empty", nb::make_tuple(n_rows, bounds.size()));
    const auto values = Output<double>::empty(n_rows);
    Fault fault;
    int64_t n_entries = 0;
    {
        const nb::gil_scoped_release release;
        n_entries = parse_pieces(pieces, bounds, places.data, values.data, threads, fault);
    }
    nb::object found = nb::none();
    if (fault.wrong != no_fault)
        found = nb::make_tuple(fault.line, int64_t(fault.wrong), fault.column);
    const nb::slice entries(nb::int_(0), nb::int_(n_entries), nb::int_(1));
    return nb::make_tuple(places.array[entries], values.array[entries], found);
}

template <class Number>
nb::object format_entries_as(nb::handle indices, nb::handle values, int64_t threads) {
    const Array<int64_t> rows(indices, "indices", 2);
    const Array<Number> numbers(values, "values", 1);
    expect(rows.shape(0) == numbers.shape(0), "values must be one per row of indices");
    std::string text;
    {
        const nb::gil_scoped_release release;
        text = format_rows(rows.data(), numbers.data(), rows.shape(0), rows.shape(1), threads);
    }
    return nb::bytes(text.data(), text.size());
}

nb::object format_entries_of(nb::object indices, nb::object values, int64_t threads) {
    expect_threads(threads);
    const auto dtype = as_view(values, "values").dtype();
    if (dtype == Type<float>::dtype) return format_entries_as<float>(indices, values, threads);
    if (dtype == Type<int64_t>::dtype) return format_entries_as<int64_t>(indices, values, threads);
    return format_entries_as<double>(indices, values, threads);
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Compiled kernels; kernels/reference.py says what each computes.";
    m.def("tucker_values", tucker_values_of, "nodes"_a, "starts"_a, "leaves"_a, "core"_a,
          "factors"_a, "threads"_a = 1, "Values of a Tucker tensor at the entries of the tree.");
    m.def("tucker_energy", tucker_energy_of, "nodes"_a, "starts"_a, "leaves"_a, "core"_a,
          "factors"_a, "threads"_a = 1, "Squared norm of these values, which are not kept.");
    m.def("tucker_pullback", tucker_pullback_of, "nodes"_a, "starts"_a, "leaves"_a, "y"_a,
          "core"_a, "factors"_a, "want_residual"_a = false, "subtract"_a = true, "threads"_a = 1,
          "Squared residual norm, and the pull-back of the residual through core and factors.");
    m.def("tangent_energy", tangent_energy_of, "nodes"_a, "starts"_a, "leaves"_a, "core"_a,
          "factors"_a, "step_core"_a, "step_factors"_a, "threads"_a = 1,
          "Squared norm of the values of a tangent vector to a Tucker tensor.");
    m.def("tucker_normal", tucker_normal_of, "nodes"_a, "starts"_a, "leaves"_a, "core"_a,
          "factors"_a, "step_core"_a, "step_factors"_a, "threads"_a = 1,
          "Squared norm and pull-back of the values of a tangent vector, as the reference says.");
    m.def("mode_values", mode_values_of, "columns"_a, "starts"_a, "leaves"_a, "left"_a, "rights"_a,
          "threads"_a = 1,
          "Entries of the matrix left @ hstack(rights).T; fibre f is its column columns[f].");
    m.def("mode_energy", mode_energy_of, "columns"_a, "starts"_a, "leaves"_a, "left"_a, "rights"_a,
          "threads"_a = 1, "Squared norm of these entries, which are not kept.");
    m.def("mode_pass", mode_pass_of, "columns"_a, "starts"_a, "leaves"_a, "y"_a, "left"_a,
          "right"_a, "rows"_a, "threads"_a = 1,
          "Squared residual norm and both single-mode products of the residual.");
    m.def("fibre_products", fibre_products_of, "columns"_a, "starts"_a, "leaves"_a, "y"_a, "q"_a,
          "n_columns"_a, "threads"_a = 1, "Product G^T conj(q) of the matrix of the entries y.");
    m.def("gram_pass", gram_pass_of, "starts"_a, "leaves"_a, "y"_a, "q"_a, "threads"_a = 1,
          "Product G G^H q of the n x N matrix with the entries y, fibre by fibre.");
    m.def("leaf_energies", leaf_energies_of, "starts"_a, "leaves"_a, "y"_a, "n_lead"_a,
          "threads"_a = 1, "Sum of |y|^2 over the entries with each lead-mode coordinate.");
    m.def("read_tree", read_tree_of, "indices"_a, "sizes"_a, "modes"_a, "threads"_a = 1,
          "Leaves, rows that open a node, and nodes of the tree of sorted entries, else None.");
    m.def("survey", survey_of, "values"_a, "threads"_a = 1,
          "Largest real or imaginary part without its sign, and the squared norm.");
    m.def("split_indices", split_indices_of, "indices"_a, "sizes"_a, "threads"_a = 1,
          "Columns of an m x d array as uint32, and the first row out of range or -1.");
    m.def("sort_entries", sort_entries_of, "columns"_a, "sizes"_a, "threads"_a = 1,
          "Permutation that sorts entries by their coordinates, None if they are sorted.");
    m.def("find_nodes", find_nodes_of, "columns"_a, "sizes"_a, "threads"_a = 1,
          "Rows that open a node of each level, and how many rows repeat the one before.");
    m.def("parse_entries", parse_entries_of, "text"_a, "sizes"_a, "threads"_a = 1,
          "Coordinates and values of the entries that lines of text hold, and the first fault.");
    m.def("format_entries", format_entries_of, "indices"_a, "values"_a, "threads"_a = 1,
          "Entries as lines of text.");
}
