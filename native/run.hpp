// Passes over runs of fibres, several of them at a time.
#pragma once

#include "contract.hpp"
#include "fibre.hpp"

namespace tensormend::TENSORMEND_TARGET {
namespace {

// K fibres of a run: which row of the factor is whose, and where the entries are, counted from the
// first of the run.
template <int K>
struct Fibres {
    static constexpr int size = K;
    int64_t node[K], first[K], count[K];

    Fibres(const Run& run, int64_t f) {
        for (int k = 0; k < K; ++k, ++f) {
            const int64_t begin = run.starts[f] < run.first ? run.first : run.starts[f];
            const int64_t end = run.starts[f + 1] > run.last ? run.last : run.starts[f + 1];
            node[k] = int64_t(run.nodes[f]);
            first[k] = begin - run.first;
            count[k] = end - begin;
        }
    }
};

// Call body(Fibres) for all fibres of a run, in groups where the rows are real.
template <class T, class Body>
INLINE void for_fibres(const Run& run, const Body& body) {
    int64_t f = run.begin;
    if constexpr (has_groups<T>) {
        for (; f + group_size <= run.end; f += group_size) body(Fibres<group_size>(run, f));
    }
    for (; f < run.end; ++f) body(Fibres<1>(run, f));
}

// The rows of a matrix that belong to K fibres.
template <int K, class T>
struct Rows {
    T* row[K];

    Rows(T* matrix, int64_t length, const Fibres<K>& fibres) {
        for (int k = 0; k < K; ++k) row[k] = matrix + fibres.node[k] * length;
    }

    Rows(T* matrix, int64_t length) {
        for (int k = 0; k < K; ++k) row[k] = matrix + k * length;
    }

    T* operator[](int k) const { return row[k]; }
};

// A square block with its rows and columns exchanged, made only where there are fibres enough.
template <class T, int R>
class Transposed {
public:
    Transposed(const Branch<T>& x, int64_t n_fibres) {
        if (R <= 0 || Parts<T>::channels > 1 || x.n_rows != R || n_fibres < group_size) return;
        for (int a = 0; a < R; ++a)
            for (int c = 0; c < R; ++c) values_[c * R + a] = x.block[a * R + c];
        is_made_ = true;
    }

    const T* data() const { return is_made_ ? values_ : nullptr; }

private:
    T values_[R > 0 ? R * R : 1];
    bool is_made_ = false;
};

// `values`, kept or only their squared norm. Calls are felt where fibres are short; complex rows
// leave no registers for what surrounds their loop.
template <class T, int R, bool Keep>
INLINE double values_of_runs(const Run& run, const Branch<T>& x, T* out, T* spare) {
    double norm = 0;
    for_fibres<T>(run, [&](auto fibres) {
        constexpr int K = fibres.size;
        const Rows<K, const T> u(x.factor, x.n_rows, fibres);
        const Rows<K, T> b(spare, x.rank);
        contract_rows<T, R, false, K>(x.n_rows, x.rank, u.row, x.block, b.row);
        for (int k = 0; k < K; ++k) {
            const int64_t count = fibres.count[k], first = fibres.first[k];
            const uint32_t* const leaves = run.leaves + first;
            T* const to = Keep ? out + first : nullptr;
            if constexpr (has_groups<T>)
                norm += evaluate_rows<T, R, Keep>(count, x.rank, leaves, x.leaf, b[k], to);
            else
                norm += evaluate<T, R>(count, x.rank, leaves, x.leaf, b[k], to);
        }
    });
    return norm;
}

template <class T, int R>
double values(const Run& run, const Branch<T>& x, T* out, T* spare) {
    if (out) return values_of_runs<T, R, true>(run, x, out, spare);
    return values_of_runs<T, R, false>(run, x, out, spare);
}

template <class T, int R>
double gradient(const Run& run, const Branch<T>& x, const T* y, bool subtract,
                const Gradient<T>& sums, T* residual, T* spare) {
    const Transposed<T, R> transposed(x, run.end - run.begin);
    double norm = 0;
    for_fibres<T>(run, [&](auto fibres) {
        constexpr int K = fibres.size;
        const Rows<K, const T> u(x.factor, x.n_rows, fibres);
        const Rows<K, T> b(spare, x.rank), acc(spare + K * x.rank, x.rank);
        contract_rows<T, R, false, K>(x.n_rows, x.rank, u.row, x.block, b.row);
        for (int k = 0; k < K; ++k) {
            const int64_t first = fibres.first[k], count = fibres.count[k];
            const uint32_t* const leaves = run.leaves + first;
            if (subtract) {
                norm +=
                    fibre_gradient<T, R>(count, x.rank, leaves, y + first, x.leaf, b[k], b[k],
                                         acc[k], sums.leaf, residual ? residual + first : nullptr);
            } else {
                gather<T, R>(count, x.rank, leaves, y + first, x.leaf, acc[k]);
                scatter<T, R>(count, x.rank, leaves, y + first, b[k], sums.leaf);
                for (int64_t e = first; e < first + count; ++e) norm += squared(y[e]);
            }
        }
        const Rows<K, T> grad(sums.factor, x.n_rows, fibres);
        fold_rows<T, R, K>(x.n_rows, x.rank, u.row, x.block, transposed.data(), acc.row, grad.row,
                           sums.block);
    });
    return norm;
}

// For K fibres, b and the rows that give the values of a tangent vector: what the block and the
// rows u contribute by moving, and then b, for the leaf rows that move.
template <class T, int R, int K>
INLINE void contract_moving(const Branch<T>& x, const Branch<T>& step, const T* const* u,
                            const T* const* v, T* const* b, T* const* wide) {
    contract_rows<T, R, false, K>(x.n_rows, x.rank, u, x.block, b);
    contract_rows<T, R, false, K>(x.n_rows, x.rank, u, step.block, wide);
    contract_rows<T, R, true, K>(x.n_rows, x.rank, v, x.block, wide);
    for (int k = 0; k < K; ++k)
        for (int64_t i = 0; i < x.rank; ++i) wide[k][x.rank + i] = b[k][i];
}

template <class T, int R>
double tangent(const Run& run, const Branch<T>& x, const Branch<T>& step, T* spare) {
    double norm = 0;
    for_fibres<T>(run, [&](auto fibres) {
        constexpr int K = fibres.size;
        const Rows<K, const T> u(x.factor, x.n_rows, fibres), v(step.factor, x.n_rows, fibres);
        const Rows<K, T> b(spare, x.rank), wide(spare + K * x.rank, 2 * x.rank);
        contract_moving<T, R, K>(x, step, u.row, v.row, b.row, wide.row);
        for (int k = 0; k < K; ++k) {
            norm += evaluate<T, 2 * R>(fibres.count[k], 2 * x.rank, run.leaves + fibres.first[k],
                                       step.leaf, wide[k], static_cast<T*>(nullptr));
        }
    });
    return norm;
}

template <class T, int R>
double normal(const Run& run, const Branch<T>& x, const Branch<T>& step, const Gradient<T>& sums,
              T* spare) {
    const Transposed<T, R> transposed(x, run.end - run.begin);
    double norm = 0;
    for_fibres<T>(run, [&](auto fibres) {
        constexpr int K = fibres.size;
        const Rows<K, const T> u(x.factor, x.n_rows, fibres), v(step.factor, x.n_rows, fibres);
        const Rows<K, T> b(spare, x.rank), acc(spare + K * x.rank, x.rank),
            wide(spare + 2 * K * x.rank, 2 * x.rank);
        contract_moving<T, R, K>(x, step, u.row, v.row, b.row, wide.row);
        for (int k = 0; k < K; ++k) {
            norm += fibre_gradient_wide<T, R>(fibres.count[k], x.rank, run.leaves + fibres.first[k],
                                              step.leaf, wide[k], b[k], acc[k], sums.leaf);
        }
        const Rows<K, T> grad(sums.factor, x.n_rows, fibres);
        fold_rows<T, R, K>(x.n_rows, x.rank, u.row, x.block, transposed.data(), acc.row, grad.row,
                           sums.block);
    });
    return norm;
}

}  // namespace
}  // namespace tensormend::TENSORMEND_TARGET
