// Bindings of the Tucker kernels.
#include "bindings.hpp"
#include "parallel.hpp"
#include "tucker.hpp"

namespace tensormend {
namespace {

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

// The tree of the entries, kept alive while in use.
struct TreeArguments {
    std::vector<Array<uint32_t>> nodes;
    std::vector<Array<int64_t>> starts;
    LeafArray leaves;
    Tree tree;

    template <class T>
    TreeArguments(nb::handle given, const TuckerTensor<T>& x)
        : nodes(as_arrays<uint32_t>(given.attr("nodes"), "nodes", 1)),
          starts(as_arrays<int64_t>(given.attr("starts"), "starts", 1)),
          leaves(given.attr("leaves")) {
        expect_levels("nodes", nodes.size(), x.factors.size());
        expect_levels("starts", starts.size(), x.factors.size());
        tree.leaves = leaves.leaves;
        for (size_t l = 0; l < nodes.size(); ++l) {
            const int64_t n_nodes = nodes[l].shape(0);
            const int64_t n_children = l + 1 < nodes.size() ? nodes[l + 1].shape(0) : leaves.size();
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

nb::object tucker_values_of(nb::object tree, nb::object core, nb::sequence factors,
                            int64_t threads) {
    return dispatch_values(core, "core", [&](auto type) -> nb::object {
        using T = decltype(type);
        const TuckerArguments<T> x(core, factors);
        const TreeArguments at(tree, x.tensor);
        expect_threads(threads);
        const auto out = Output<T>::empty(at.leaves.size());
        {
            const nb::gil_scoped_release release;
            Job<T> job{Task::values, at.tree, x.tensor};
            job.out = out.data;
            tucker_values(job, threads);
        }
        return out.array;
    });
}

nb::object tucker_squared_norm_of(nb::object tree, nb::object core, nb::sequence factors,
                                  int64_t threads) {
    return dispatch_values(core, "core", [&](auto type) -> nb::object {
        using T = decltype(type);
        const TuckerArguments<T> x(core, factors);
        const TreeArguments at(tree, x.tensor);
        expect_threads(threads);
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = tucker_values<T>({Task::values, at.tree, x.tensor}, threads);
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

nb::object tucker_gradient_of(nb::object tree, nb::object y, nb::object core, nb::sequence factors,
                              bool return_residual, bool subtract, int64_t threads) {
    return dispatch_values(core, "core", [&](auto type) -> nb::object {
        using T = decltype(type);
        const TuckerArguments<T> x(core, factors);
        const TreeArguments at(tree, x.tensor);
        const ValueArray<T> values(y, at.leaves.size());
        expect_threads(threads);
        const GradientArrays<T> gradient(core, x.tensor);
        const Task task = subtract ? Task::residual : Task::data;
        Job<T> job{task, at.tree, x.tensor};
        job.y = values.values;
        nb::object residual = nb::none();
        if (return_residual) {
            const auto out = Output<T>::empty(at.leaves.size());
            residual = out.array;
            job.out = out.data;
        }
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = tucker_gradient(job, gradient.sums, threads);
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
            expect(
                step.factors[k].shape(0) == x.factors[k].shape(0) &&
                    step.factors[k].shape(1) == x.factors[k].shape(1),
                numbered("step_factors", k) + " must have the shape of " + numbered("factors", k));
        }
    }
};

nb::object tangent_squared_norm_of(nb::object tree, nb::object core, nb::sequence factors,
                                   nb::object step_core, nb::sequence step_factors,
                                   int64_t threads) {
    return dispatch_values(core, "core", [&](auto type) -> nb::object {
        using T = decltype(type);
        const TangentArguments<T> in(core, factors, step_core, step_factors);
        const TreeArguments at(tree, in.x.tensor);
        expect_threads(threads);
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square =
                tucker_values<T>({Task::tangent, at.tree, in.x.tensor, in.step.tensor}, threads);
        }
        return nb::float_(square);
    });
}

nb::object gauss_newton_of(nb::object tree, nb::object core, nb::sequence factors,
                           nb::object step_core, nb::sequence step_factors, int64_t threads) {
    return dispatch_values(core, "core", [&](auto type) -> nb::object {
        using T = decltype(type);
        const TangentArguments<T> in(core, factors, step_core, step_factors);
        const TreeArguments at(tree, in.x.tensor);
        expect_threads(threads);
        const GradientArrays<T> gradient(core, in.x.tensor);
        double square = 0;
        {
            const nb::gil_scoped_release release;
            square = tucker_gradient<T>({Task::normal, at.tree, in.x.tensor, in.step.tensor},
                                        gradient.sums, threads);
        }
        return nb::make_tuple(square, gradient.core.array, gradient.factors);
    });
}

}  // namespace

void bind_tucker(nb::module_& m) {
    m.def("tucker_values", tucker_values_of, "tree"_a, "core"_a, "factors"_a, "threads"_a = 1,
          "Values of a Tucker tensor at the entries of the tree.");
    m.def("tucker_squared_norm", tucker_squared_norm_of, "tree"_a, "core"_a, "factors"_a,
          "threads"_a = 1, "Squared norm of these values, which are not kept.");
    m.def("tucker_gradient", tucker_gradient_of, "tree"_a, "y"_a, "core"_a, "factors"_a,
          "return_residual"_a = false, "subtract"_a = true, "threads"_a = 1,
          "Squared residual norm, and its negative gradient with respect to core and factors.");
    m.def("tangent_squared_norm", tangent_squared_norm_of, "tree"_a, "core"_a, "factors"_a,
          "step_core"_a, "step_factors"_a, "threads"_a = 1,
          "Squared norm of the values of a tangent vector to a Tucker tensor.");
    m.def("gauss_newton", gauss_newton_of, "tree"_a, "core"_a, "factors"_a, "step_core"_a,
          "step_factors"_a, "threads"_a = 1,
          "Squared norm of the values of a tangent vector, and the gradient for them.");
}

}  // namespace tensormend
