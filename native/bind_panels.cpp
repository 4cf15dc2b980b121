// Bindings of the sweeps over tall panels.
#include "bindings.hpp"
#include "panels.hpp"

namespace tensormend {
namespace {

// Call function(T{}) for real values.
template <class Function>
nb::object dispatch_real(nb::handle values, const char* name, const Function& function) {
    const auto dtype = as_view(values, name).dtype();
    if (dtype == Type<float>::dtype) return function(float{});
    if (dtype == Type<double>::dtype) return function(double{});
    throw nb::type_error(
        (std::string(name) + " must have dtype float32 or float64, got " + dtype_name(values))
            .c_str());
}

template <class T>
struct MovedArguments {
    Array<T> rows, base, across;
    Moved<T> moved;

    MovedArguments(nb::handle rows_object, nb::handle base_object, nb::handle across_object,
                   double step)
        : rows(rows_object, "rows", 2),
          base(base_object, "base", 2),
          across(across_object, "across", 2),
          moved{base.data(), across.data(), step} {
        for (const auto* panel : {&base, &across}) {
            const std::string name = panel == &base ? "base" : "across";
            expect_rows(*panel, rank(), name);
            expect(panel->shape(0) == n_rows(), name + " must have as many rows as rows, " +
                                                    std::to_string(n_rows()) + ", got " +
                                                    std::to_string(panel->shape(0)));
        }
    }

    int64_t n_rows() const { return rows.shape(0); }
    int64_t rank() const { return rows.shape(1); }
};

nb::object panel_products_of(nb::object rows, nb::object base, nb::object across, double step,
                             int64_t threads) {
    return dispatch_real(rows, "rows", [&](auto type) -> nb::object {
        using T = decltype(type);
        const MovedArguments<T> in(rows, base, across, step);
        expect_threads(threads);
        const auto rz = Output<double>::zeros(in.rank(), in.rank());
        const auto zz = Output<double>::zeros(in.rank(), in.rank());
        {
            const nb::gil_scoped_release release;
            panel_products(in.n_rows(), in.rank(), in.rows.data(), in.moved, rz.data, zz.data,
                           threads);
        }
        return nb::make_tuple(rz.array, zz.array);
    });
}

nb::object panel_combine_of(nb::object rows, nb::object base, nb::object across, double step,
                            nb::object matrix, int64_t threads) {
    return dispatch_real(rows, "rows", [&](auto type) -> nb::object {
        using T = decltype(type);
        const MovedArguments<T> in(rows, base, across, step);
        const Array<double> mix(matrix, "matrix", 2);
        expect_rows(mix, in.rank(), "matrix");
        expect(mix.shape(0) == 2 * in.rank(), "matrix must have " + std::to_string(2 * in.rank()) +
                                                  " rows, got " + std::to_string(mix.shape(0)));
        expect_threads(threads);
        const Output<T> out("empty", nb::make_tuple(in.n_rows(), in.rank()));
        const auto gram = Output<double>::zeros(in.rank(), in.rank());
        {
            const nb::gil_scoped_release release;
            panel_combine(in.n_rows(), in.rank(), in.rows.data(), in.moved, mix.data(), out.data,
                          gram.data, threads);
        }
        return nb::make_tuple(out.array, gram.array);
    });
}

nb::object panel_multiply_of(nb::object left, nb::object matrices, int64_t threads) {
    return dispatch_real(left, "left", [&](auto type) -> nb::object {
        using T = decltype(type);
        const Array<T> rows(left, "left", 2);
        const Array<T> blocks(matrices, "matrices", 3);
        const int64_t width = rows.shape(1);
        expect(blocks.shape(1) == width, "matrices must have " + std::to_string(width) +
                                             " rows each, as left has columns, got " +
                                             std::to_string(blocks.shape(1)));
        expect_threads(threads);
        const int64_t n_matrices = blocks.shape(0), rank = blocks.shape(2);
        const Output<T> out("empty", nb::make_tuple(n_matrices * rows.shape(0), rank));
        {
            const nb::gil_scoped_release release;
            panel_multiply(rows.shape(0), width, rows.data(), n_matrices, blocks.data(), rank,
                           out.data, threads);
        }
        return out.array;
    });
}

nb::object panel_adjoint_of(nb::object left, nb::object right, int64_t threads) {
    return dispatch_real(left, "left", [&](auto type) -> nb::object {
        using T = decltype(type);
        const Array<T> rows(left, "left", 2);
        const Array<T> others(right, "right", 2);
        expect(others.shape(0) == rows.shape(0),
               "right must have " + std::to_string(rows.shape(0)) + " rows, as left has, got " +
                   std::to_string(others.shape(0)));
        expect_threads(threads);
        const Output<T> out("empty", nb::make_tuple(rows.shape(1), others.shape(1)));
        {
            const nb::gil_scoped_release release;
            panel_adjoint(rows.shape(0), rows.shape(1), rows.data(), others.data(), others.shape(1),
                          out.data, threads);
        }
        return out.array;
    });
}

}  // namespace

void bind_panels(nb::module_& m) {
    m.def("panel_products", panel_products_of, "rows"_a, "base"_a, "across"_a, "step"_a,
          "threads"_a = 1, "Products rows^T z and z^T z of the panel z = base + step * across.");
    m.def("panel_combine", panel_combine_of, "rows"_a, "base"_a, "across"_a, "step"_a, "matrix"_a,
          "threads"_a = 1, "The panel [rows z] @ matrix and its Gram matrix.");
    m.def("panel_multiply", panel_multiply_of, "left"_a, "matrices"_a, "threads"_a = 1,
          "The products left @ matrices[p], one below the other.");
    m.def("panel_adjoint", panel_adjoint_of, "left"_a, "right"_a, "threads"_a = 1,
          "The product left.T @ right.");
}

}  // namespace tensormend
