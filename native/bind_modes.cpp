// Bindings of the single-mode kernels.
#include "bindings.hpp"
#include "modes.hpp"
#include "parallel.hpp"

namespace tensormend {
namespace {

// The fibres of a tree, kept alive while in use; their number among all does not matter.
struct FibreArguments {
    std::vector<Array<int64_t>> starts;
    LeafArray leaves;
    FibreList list{};

    explicit FibreArguments(nb::handle tree)
        : starts(as_arrays<int64_t>(tree.attr("starts"), "starts", 1)),
          leaves(tree.attr("leaves")) {
        expect(!starts.empty(), "starts must have one level or more, got none");
        const auto& last = starts.back();
        const std::string name = numbered("starts", starts.size() - 1);
        expect(last.shape(0) >= 1, name + " must have at least one element, got none");
        list.n_fibres = last.shape(0) - 1;
        expect_starts(last, list.n_fibres, leaves.size(), name);
        list.starts = last.data();
        list.leaves = leaves.leaves;
    }
};

// The entries as a matrix with one column per fibre.
struct MatrixArguments : FibreArguments {
    Array<int64_t> columns;

    MatrixArguments(nb::handle tree, nb::handle column_object, int64_t n_columns)
        : FibreArguments(tree), columns(column_object, "columns", 1) {
        expect(columns.shape(0) == list.n_fibres,
               "columns must have one number for each of the " + std::to_string(list.n_fibres) +
                   " fibres, got " + std::to_string(columns.shape(0)));
        expect_below(columns, n_columns, "columns");
        list.columns = columns.data();
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
            expect(arrays[k].shape(0) == n_rows(),
                   numbered(name, k) + " must have " + std::to_string(n_rows()) +
                       " rows as the first has, got " + std::to_string(arrays[k].shape(0)));
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
        expect(rows.width() == left.shape(1), "rights must have " + std::to_string(left.shape(1)) +
                                                  " columns together, as left has, got " +
                                                  std::to_string(rows.width()));
    }
};

nb::object mode_values_of(nb::object tree, nb::object columns, nb::object left, nb::sequence rights,
                          int64_t threads) {
    return dispatch_values(left, "left", [&](auto type) -> nb::object {
        using T = decltype(type);
        const ProductArguments<T> in(left, rights);
        const MatrixArguments at(tree, columns, in.right.n_rows());
        expect_threads(threads);
        const auto out = Output<T>::empty(at.leaves.size());
        {
            const nb::gil_scoped_release release;
            mode_values(at.list, in.left.data(), in.left.shape(0), in.rows, out.data, threads);
        }
        return out.array;
    });
}

nb::object mode_squared_norm_of(nb::object tree, nb::object columns, nb::object left,
                                nb::sequence rights, int64_t threads) {
    return dispatch_values(left, "left", [&](auto type) -> nb::object {
        using T = decltype(type);
        const ProductArguments<T> in(left, rights);
        const MatrixArguments at(tree, columns, in.right.n_rows());
        expect_threads(threads);
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = mode_values<T>(at.list, in.left.data(), in.left.shape(0), in.rows, nullptr,
                                    threads);
        }
        return nb::float_(square);
    });
}

nb::object mode_pass_of(nb::object tree, nb::object columns, nb::object y, nb::object left,
                        nb::object right, nb::object rows, int64_t threads) {
    return dispatch_values(left, "left", [&](auto type) -> nb::object {
        using T = decltype(type);
        const PanelArguments<T> in(left, right);
        const MatrixArguments at(tree, columns, in.right.shape(0));
        const ValueArray<T> values(y, at.leaves.size());
        const Array<T> vectors(rows, "rows", 2);
        expect_rows(vectors, in.rank(), "rows");
        expect(vectors.shape(0) == in.right.shape(0),
               "rows must have as many rows as right, " + std::to_string(in.right.shape(0)) +
                   ", got " + std::to_string(vectors.shape(0)));
        expect_threads(threads);
        const int64_t n_leaf_rows = in.left.shape(0);
        const auto across = Output<T>::zeros(in.right.shape(0), in.rank());
        const auto along = Output<T>::zeros(n_leaf_rows, in.rank());
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = mode_pass(at.list, values.values, in.left.data(), n_leaf_rows, in.right.data(),
                               vectors.data(), in.right.shape(0), in.rank(), across.data,
                               along.data, threads);
        }
        return nb::make_tuple(square, across.array, along.array);
    });
}

nb::object fibre_products_of(nb::object tree, nb::object columns, nb::object y, nb::object q,
                             int64_t n_columns, int64_t threads) {
    return dispatch_values(q, "q", [&](auto type) -> nb::object {
        using T = decltype(type);
        const MatrixArguments at(tree, columns, n_columns);
        const ValueArray<T> values(y, at.leaves.size());
        const Array<T> vectors(q, "q", 2);
        expect_threads(threads);
        const auto out = Output<T>::zeros(n_columns, vectors.shape(1));
        {
            const nb::gil_scoped_release release;
            fibre_products(at.list, values.values, vectors.data(), vectors.shape(0),
                           vectors.shape(1), out.data, threads);
        }
        return out.array;
    });
}

nb::object gram_pass_of(nb::object tree, nb::object y, nb::object q, int64_t threads) {
    return dispatch_values(q, "q", [&](auto type) -> nb::object {
        using T = decltype(type);
        const FibreArguments at(tree);
        const ValueArray<T> values(y, at.leaves.size());
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

nb::object leaf_squared_norms_of(nb::object tree, nb::object y, int64_t n_leaf_rows,
                                 int64_t threads) {
    return dispatch_values(y, "y", [&](auto type) -> nb::object {
        using T = decltype(type);
        using Real = decltype(squared_size(T{}));
        const FibreArguments at(tree);
        const ValueArray<T> values(y, at.leaves.size());
        expect_threads(threads);
        const Output<Real> out("zeros", nb::int_(n_leaf_rows));
        {
            const nb::gil_scoped_release release;
            leaf_squared_norms(at.list, values.values, n_leaf_rows, out.data, threads);
        }
        return out.array;
    });
}

}  // namespace

void bind_modes(nb::module_& m) {
    m.def("mode_values", mode_values_of, "tree"_a, "columns"_a, "left"_a, "rights"_a,
          "threads"_a = 1,
          "Entries of the matrix left @ hstack(rights).T; fibre f is its column columns[f].");
    m.def("mode_squared_norm", mode_squared_norm_of, "tree"_a, "columns"_a, "left"_a, "rights"_a,
          "threads"_a = 1, "Squared norm of these entries, which are not kept.");
    m.def("mode_pass", mode_pass_of, "tree"_a, "columns"_a, "y"_a, "left"_a, "right"_a, "rows"_a,
          "threads"_a = 1, "Squared residual norm and both single-mode products of the residual.");
    m.def("fibre_products", fibre_products_of, "tree"_a, "columns"_a, "y"_a, "q"_a, "n_columns"_a,
          "threads"_a = 1, "Product G^T conj(q) of the matrix of the entries y.");
    m.def("gram_pass", gram_pass_of, "tree"_a, "y"_a, "q"_a, "threads"_a = 1,
          "Product G G^H q of the n x N matrix with the entries y, fibre by fibre.");
    m.def("leaf_squared_norms", leaf_squared_norms_of, "tree"_a, "y"_a, "n_leaf_rows"_a,
          "threads"_a = 1, "Sum of |y|^2 over the entries with each leaf-mode coordinate.");
}

}  // namespace tensormend
