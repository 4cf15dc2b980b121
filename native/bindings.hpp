// What the bindings share: arguments that are checked and kept alive, outputs that NumPy allocates.
//
// Names, arguments and returns of the kernels are those of tensormend/core/kernels/reference.py.
// Lengths, shapes, dtypes and the coordinates of the nodes are checked here. The leaf-mode
// coordinates are not: reading all of them once more would slow a pass down noticeably, and
// Fibres.build has checked them. Nor is it checked that the children of a node differ.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "loops.hpp"
#include "values.hpp"

namespace tensormend {

namespace nb = nanobind;
using namespace nb::literals;

// One file each; they add their kernels to the module.
void bind_tucker(nb::module_& m);
void bind_modes(nb::module_& m);
void bind_panels(nb::module_& m);
void bind_entries(nb::module_& m);

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

inline void expect(bool is_met, const std::string& message) {
    if (!is_met) throw nb::value_error(message.c_str());
}

inline std::string numbered(const char* name, size_t k) {
    return std::string(name) + "[" + std::to_string(k) + "]";
}

inline std::string dtype_name(nb::handle array) {
    const nb::object dtype = array.attr("dtype");
    return nb::str(nb::handle(dtype)).c_str();
}

inline View as_view(nb::handle object, const std::string& name) {
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
            throw nb::type_error(
                (name + " must have dtype " + Type<T>::name + ", got " + dtype_name(object))
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
          data(
              static_cast<T*>(nb::cast<nb::ndarray<nb::c_contig, nb::device::cpu>>(array).data())) {
    }

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

inline void expect_starts(const Array<int64_t>& starts, int64_t n_nodes, int64_t n_children,
                          const std::string& name) {
    expect(starts.shape(0) == n_nodes + 1,
           name + " must have length " + std::to_string(n_nodes + 1) +
               ", one more than it has nodes, got " + std::to_string(starts.shape(0)));
    expect(starts.data()[0] == 0 && starts.data()[n_nodes] == n_children,
           name + " must begin with 0 and end with the number of children, " +
               std::to_string(n_children));
}

template <class T>
void expect_rows(const Array<T>& matrix, int64_t rank, const std::string& name) {
    expect(matrix.shape(1) == rank, name + " must have " + std::to_string(rank) + " columns, got " +
                                        std::to_string(matrix.shape(1)));
}

// Measurements in the type of the sums or, for double precision, in half of it.
template <class T>
class ValueArray {
public:
    ValueArray(nb::handle object, int64_t n_entries) : view_(as_view(object, "y")) {
        using Half = typename HalfOf<T>::type;
        if (view_.dtype() != Type<T>::dtype && view_.dtype() != Type<Half>::dtype) {
            throw nb::type_error((std::string("y must have dtype ") + Type<T>::name +
                                  ", as the factors have, or half of it, got " + dtype_name(object))
                                     .c_str());
        }
        expect(view_.ndim() == 1, "y must have 1 dimensions, got " + std::to_string(view_.ndim()));
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

// Leaf-mode coordinates in 32 or 16 bits.
class LeafArray {
public:
    explicit LeafArray(nb::handle object) : view_(as_view(object, "leaves")) {
        expect(view_.ndim() == 1,
               "leaves must have 1 dimensions, got " + std::to_string(view_.ndim()));
        if (view_.dtype() == Type<uint32_t>::dtype) {
            leaves.whole = static_cast<const uint32_t*>(view_.data());
        } else if (view_.dtype() == Type<uint16_t>::dtype) {
            leaves.half = static_cast<const uint16_t*>(view_.data());
        } else {
            throw nb::type_error(
                ("leaves must have dtype uint16 or uint32, got " + dtype_name(object)).c_str());
        }
    }

    int64_t size() const { return int64_t(view_.shape(0)); }

    Leaves leaves;

private:
    View view_;
};

inline void expect_threads(int64_t threads) {
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

}  // namespace tensormend
