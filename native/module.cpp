// Python bindings. Names, arguments and returns are those of tensormend/kernels/reference.py.
//
// Lengths, shapes, dtypes and the coordinates of the nodes are checked here. The lead-mode
// coordinates are not: reading all of them once more would slow a pass down noticeably, and
// Fibres.build has checked them.
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
#include "tucker.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace tensormend;

namespace {

// Converts to C order where needed but never to another dtype.
using View = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

template <class T>
struct Type;
template <>
struct Type<uint32_t> {
    static constexpr auto name = "uint32";
    static constexpr auto dtype = nb::dtype<uint32_t>();
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
    if (begin == end) return;
    const auto range = std::minmax_element(begin, end);
    expect(int64_t(*range.first) >= 0 && int64_t(*range.second) < bound,
           name + " must lie between 0 and " + std::to_string(bound - 1) + ", got " +
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

template <class T>
void expect_values(const Array<T>& y, int64_t n_entries) {
    expect(y.shape(0) == n_entries, "y must have one value for each of the " +
                                        std::to_string(n_entries) + " leaves, got " +
                                        std::to_string(y.shape(0)));
}

void expect_threads(int64_t threads) {
    expect(threads >= 1, "threads must be 1 or more, got " + std::to_string(threads));
}

// Call function.operator()<T>() for the value type T of an array.
template <class Function>
nb::object dispatch(nb::handle values, const char* name, const Function& function) {
    const auto dtype = as_view(values, name).dtype();
    if (dtype == Type<float>::dtype) return function(float{});
    if (dtype == Type<double>::dtype) return function(double{});
    if (dtype == Type<Complex<float>>::dtype) return function(Complex<float>{});
    if (dtype == Type<Complex<double>>::dtype) return function(Complex<double>{});
    throw nb::type_error((std::string(name) + " must have dtype float32, float64, complex64 or " +
                          "complex128, got " + dtype_name(values))
                             .c_str());
}

template <class T>
struct TuckerArguments {
    std::vector<Array<uint32_t>> nodes;
    std::vector<Array<int64_t>> starts;
    Array<uint32_t> leaves;
    std::vector<Array<T>> factors;
    Array<T> core;
    TuckerProblem<T> problem;

    TuckerArguments(nb::sequence node_objects, nb::sequence start_objects, nb::handle leaf_object,
                    nb::handle core_object, nb::sequence factor_objects)
        : nodes(as_arrays<uint32_t>(node_objects, "nodes", 1)),
          starts(as_arrays<int64_t>(start_objects, "starts", 1)),
          leaves(leaf_object, "leaves", 1),
          factors(as_arrays<T>(factor_objects, "factors", 2)),
          core(core_object, "core", factors.size()) {
        expect(factors.size() >= 2, "factors must have 2 matrices or more, got " +
                                        std::to_string(factors.size()));
        expect_levels("nodes", nodes.size());
        expect_levels("starts", starts.size());
        problem.leaves = leaves.data();
        problem.core = core.data();
        for (size_t k = 0; k < factors.size(); ++k) {
            expect_rows(factors[k], core.shape(k), numbered("factors", k));
            problem.factors.push_back({factors[k].data(), factors[k].shape(0), core.shape(k)});
        }
        for (size_t l = 0; l < nodes.size(); ++l) {
            const int64_t n_nodes = nodes[l].shape(0);
            const int64_t n_children =
                l + 1 < nodes.size() ? nodes[l + 1].shape(0) : leaves.shape(0);
            expect_starts(starts[l], n_nodes, n_children, numbered("starts", l));
            expect_below(nodes[l], factors[l].shape(0), numbered("nodes", l));
            problem.levels.push_back({nodes[l].data(), starts[l].data(), n_nodes});
        }
    }

private:
    void expect_levels(const char* name, size_t found) const {
        expect(found + 1 == factors.size(),
               std::string(name) + " must have one level less than there are factors, " +
                   std::to_string(factors.size() - 1) + ", got " + std::to_string(found));
    }
};

nb::object tucker_values_of(nb::sequence nodes, nb::sequence starts, nb::object leaves,
                            nb::object core, nb::sequence factors, int64_t threads) {
    return dispatch(core, "core", [&](auto type) -> nb::object {
        using T = decltype(type);
        const TuckerArguments<T> in(nodes, starts, leaves, core, factors);
        expect_threads(threads);
        const auto out = Output<T>::empty(in.leaves.shape(0));
        {
            const nb::gil_scoped_release release;
            tucker_values(in.problem, out.data, threads);
        }
        return out.array;
    });
}

nb::object tucker_pullback_of(nb::sequence nodes, nb::sequence starts, nb::object leaves,
                              nb::object y, nb::object core, nb::sequence factors,
                              bool want_residual, bool subtract, int64_t threads) {
    return dispatch(core, "core", [&](auto type) -> nb::object {
        using T = decltype(type);
        const TuckerArguments<T> in(nodes, starts, leaves, core, factors);
        const Array<T> values(y, "y", 1);
        expect_values(values, in.leaves.shape(0));
        expect_threads(threads);

        Sums<T> sums;
        const Output<T> core_gradient("zeros", core.attr("shape"));
        sums.core = core_gradient.data;
        nb::list gradients;
        for (const auto& factor : in.factors) {
            const auto gradient = Output<T>::zeros(factor.shape(0), factor.shape(1));
            sums.factors.push_back(gradient.data);
            gradients.append(gradient.array);
        }
        nb::object residual = nb::none();
        T* residual_data = nullptr;
        if (want_residual) {
            const auto out = Output<T>::empty(in.leaves.shape(0));
            residual = out.array;
            residual_data = out.data;
        }

        double loss = 0;
        {
            const nb::gil_scoped_release release;
            loss = tucker_pullback(in.problem, values.data(), subtract, sums, residual_data,
                                   threads);
        }
        return nb::make_tuple(loss, core_gradient.array, gradients, residual);
    });
}

template <class T>
struct ModeArguments {
    Array<int64_t> columns, starts;
    Array<uint32_t> leaves;
    Array<T> left, right;
    ModeProblem<T> problem;

    ModeArguments(nb::handle column_object, nb::handle start_object, nb::handle leaf_object,
                  nb::handle left_object, nb::handle right_object)
        : columns(column_object, "columns", 1),
          starts(start_object, "starts", 1),
          leaves(leaf_object, "leaves", 1),
          left(left_object, "left", 2),
          right(right_object, "right", 2),
          problem{columns.data(), starts.data(), leaves.data(), columns.shape(0),
                  left.data(),    right.data(),  left.shape(0), left.shape(1)} {
        expect_rows(right, left.shape(1), "right");
        expect_starts(starts, columns.shape(0), leaves.shape(0), "starts");
        expect_below(columns, right.shape(0), "columns");
    }
};

nb::object mode_values_of(nb::object columns, nb::object starts, nb::object leaves,
                          nb::object left, nb::object right, int64_t threads) {
    return dispatch(left, "left", [&](auto type) -> nb::object {
        using T = decltype(type);
        const ModeArguments<T> in(columns, starts, leaves, left, right);
        expect_threads(threads);
        const auto out = Output<T>::empty(in.leaves.shape(0));
        {
            const nb::gil_scoped_release release;
            mode_values(in.problem, out.data, threads);
        }
        return out.array;
    });
}

nb::object mode_pass_of(nb::object columns, nb::object starts, nb::object leaves, nb::object y,
                        nb::object left, nb::object right, nb::object rows, int64_t threads) {
    return dispatch(left, "left", [&](auto type) -> nb::object {
        using T = decltype(type);
        const ModeArguments<T> in(columns, starts, leaves, left, right);
        const Array<T> values(y, "y", 1), vectors(rows, "rows", 2);
        expect_values(values, in.leaves.shape(0));
        expect_rows(vectors, in.left.shape(1), "rows");
        expect(vectors.shape(0) == in.right.shape(0),
               "rows must have as many rows as right, " + std::to_string(in.right.shape(0)) +
                   ", got " + std::to_string(vectors.shape(0)));
        expect_threads(threads);
        const auto across = Output<T>::zeros(in.right.shape(0), in.left.shape(1));
        const auto along = Output<T>::zeros(in.left.shape(0), in.left.shape(1));
        double loss = 0;
        {
            const nb::gil_scoped_release release;
            loss = mode_pass(in.problem, values.data(), vectors.data(), across.data, along.data,
                             threads);
        }
        return nb::make_tuple(loss, across.array, along.array);
    });
}

// The entries as a matrix with one column per fibre, and vectors to multiply it by.
template <class T>
struct FibreArguments {
    Array<int64_t> starts;
    Array<uint32_t> leaves;
    Array<T> values, vectors;
    int64_t n_fibres;

    FibreArguments(nb::handle start_object, nb::handle leaf_object, nb::handle value_object,
                   nb::handle vector_object, int64_t threads)
        : starts(start_object, "starts", 1),
          leaves(leaf_object, "leaves", 1),
          values(value_object, "y", 1),
          vectors(vector_object, "q", 2),
          n_fibres(starts.shape(0) - 1) {
        expect(n_fibres >= 0, "starts must have at least one element, got none");
        expect_starts(starts, n_fibres, leaves.shape(0), "starts");
        expect_values(values, leaves.shape(0));
        expect_threads(threads);
    }
};

nb::object fibre_products_of(nb::object starts, nb::object leaves, nb::object y, nb::object q,
                             int64_t threads) {
    return dispatch(q, "q", [&](auto type) -> nb::object {
        using T = decltype(type);
        const FibreArguments<T> in(starts, leaves, y, q, threads);
        const auto out = Output<T>::zeros(in.n_fibres, in.vectors.shape(1));
        {
            const nb::gil_scoped_release release;
            fibre_products(in.starts.data(), in.n_fibres, in.leaves.data(), in.values.data(),
                           in.vectors.data(), in.vectors.shape(1), out.data, threads);
        }
        return out.array;
    });
}

nb::object gram_pass_of(nb::object starts, nb::object leaves, nb::object y, nb::object q,
                        int64_t threads) {
    return dispatch(q, "q", [&](auto type) -> nb::object {
        using T = decltype(type);
        const FibreArguments<T> in(starts, leaves, y, q, threads);
        const auto out = Output<T>::zeros(in.vectors.shape(0), in.vectors.shape(1));
        {
            const nb::gil_scoped_release release;
            gram_pass(in.starts.data(), in.n_fibres, in.leaves.data(), in.values.data(),
                      in.vectors.data(), in.vectors.shape(0), in.vectors.shape(1), out.data,
                      threads);
        }
        return out.array;
    });
}

nb::object sort_entries_of(nb::sequence columns, nb::sequence sizes) {
    const auto coordinates = as_arrays<uint32_t>(columns, "columns", 1);
    const auto bounds = nb::cast<std::vector<int64_t>>(sizes);
    expect(!coordinates.empty() && coordinates.size() == bounds.size(),
           "columns must be one or more, with one size each");
    const int64_t n_rows = coordinates[0].shape(0);
    std::vector<Column> rows;
    for (size_t k = 0; k < coordinates.size(); ++k) {
        expect(coordinates[k].shape(0) == n_rows, "columns must have one length");
        expect_below(coordinates[k], bounds[k], numbered("columns", k));
        rows.push_back({coordinates[k].data(), bounds[k]});
    }
    {
        const nb::gil_scoped_release release;
        if (is_sorted(rows, n_rows)) rows.clear();
    }
    if (rows.empty()) return nb::none();
    const auto permutation = Output<int64_t>::empty(n_rows);
    {
        const nb::gil_scoped_release release;
        sort_rows(rows, n_rows, permutation.data);
    }
    return permutation.array;
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Compiled kernels; kernels/reference.py says what each computes.";
    m.def("tucker_values", tucker_values_of, "nodes"_a, "starts"_a, "leaves"_a, "core"_a,
          "factors"_a, "threads"_a = 1, "Values of a Tucker tensor at the entries of the tree.");
    m.def("tucker_pullback", tucker_pullback_of, "nodes"_a, "starts"_a, "leaves"_a, "y"_a,
          "core"_a, "factors"_a, "want_residual"_a = false, "subtract"_a = true, "threads"_a = 1,
          "Squared residual norm, and the pull-back of the residual through core and factors.");
    m.def("mode_values", mode_values_of, "columns"_a, "starts"_a, "leaves"_a, "left"_a, "right"_a,
          "threads"_a = 1,
          "Entries of the matrix left @ right.T; fibre f is its column columns[f].");
    m.def("mode_pass", mode_pass_of, "columns"_a, "starts"_a, "leaves"_a, "y"_a, "left"_a,
          "right"_a, "rows"_a, "threads"_a = 1,
          "Squared residual norm and both single-mode products of the residual.");
    m.def("fibre_products", fibre_products_of, "starts"_a, "leaves"_a, "y"_a, "q"_a,
          "threads"_a = 1, "Rows of G^T conj(q), one per fibre, for the entries y.");
    m.def("sort_entries", sort_entries_of, "columns"_a, "sizes"_a,
          "Permutation that sorts entries by their coordinates, None if they are sorted.");
    m.def("gram_pass", gram_pass_of, "starts"_a, "leaves"_a, "y"_a, "q"_a, "threads"_a = 1,
          "Product G G^H q of the n x N matrix with the entries y, fibre by fibre.");
}
