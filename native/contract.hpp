// Contractions of the core with rows of a factor, and their adjoints: for one row, and for groups.
#pragma once

#include "fibre.hpp"
#include "row.hpp"

namespace tensormend::TENSORMEND_TARGET {
namespace {

// out = sum_a u[a] block[a], or, with Add, that much more
template <class T, int R, bool Add>
INLINE void contract_one(int64_t n_rows, int64_t rank, const T* RESTRICT u, const T* RESTRICT block,
                         T* RESTRICT out) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> row, sum[C];
        for (int c = 0; c < C; ++c) sum[c].clear();
        if constexpr (Add && C == 1) sum[0].load(out);
        for (int64_t a = 0; a < n_rows; ++a) {
            row.load(reals(block) + a * W);
            for (int c = 0; c < C; ++c) sum[c].add(reals(u)[C * a + c], row);
        }
        if constexpr (C == 1) {
            sum[0].store(out);
        } else {
            Real spare[C * W];
            T collected[R];
            for (int c = 0; c < C; ++c) sum[c].store(spare + c * W);
            collect(R, spare, collected);
            for (int k = 0; k < R; ++k) {
                out[k].re = collected[k].re + (Add ? out[k].re : 0);
                out[k].im = collected[k].im + (Add ? out[k].im : 0);
            }
        }
    } else {
        if constexpr (!Add)
            for (int64_t k = 0; k < rank; ++k) out[k] = T{};
        for (int64_t a = 0; a < n_rows; ++a) {
            if constexpr (C == 1) {
                add_row(rank, u[a], block + a * rank, out);
            } else {
                for (int64_t k = 0; k < rank; ++k) add_product(out[k], u[a], block[a * rank + k]);
            }
        }
    }
}

// grad[a] += conj(block[a]) . acc and up[a] += conj(u[a]) acc
template <class T, int R>
INLINE void fold_one(int64_t n_rows, int64_t rank, const T* RESTRICT u, const T* RESTRICT block,
                     const T* RESTRICT acc, T* RESTRICT grad, T* RESTRICT up) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> row, to, sum[C];  // sum: acc, and -i acc for complex values
        sum[0].load(reals(acc));
        if constexpr (C == 2) {
            T turned[R];
            for (int k = 0; k < R; ++k) turned[k] = {acc[k].im, -acc[k].re};
            sum[1].load(reals(turned));
        }
        for (int64_t a = 0; a < n_rows; ++a) {
            row.load(reals(block) + a * W);
            to.load(reals(up) + a * W);
            for (int c = 0; c < C; ++c) {
                reals(grad)[C * a + c] += row.dot(sum[c]);
                to.add(reals(u)[C * a + c], sum[c]);
            }
            to.store(reals(up) + a * W);
        }
    } else {
        for (int64_t a = 0; a < n_rows; ++a) {
            if constexpr (C == 1) {
                grad[a] += dot(rank, block + a * rank, acc);
                add_row(rank, u[a], acc, up + a * rank);
            } else {
                for (int64_t k = 0; k < rank; ++k)
                    add_product_conj(grad[a], acc[k], block[a * rank + k]);
                for (int64_t k = 0; k < rank; ++k) add_product_conj(up[a * rank + k], acc[k], u[a]);
            }
        }
    }
}

// Several rows at a time, of fibres or of nodes above them: the block is then read, and the
// gradient with respect to it updated, once for all of them (a block that is not square is read
// once more for each in `dot_group`). The rows and what belongs to them come as pointers, no two
// of them the same. Rows are cut into tiles so that those of all fit into registers.
template <class Real>
constexpr int tile = vector_bytes > 0 ? 2 * vector_bytes / int(sizeof(Real)) : 4;

// Call body(Width, first column) for the tiles of a row.
template <int R, class Real, int At = 0, class Body>
INLINE void for_tiles(int64_t rank, const Body& body) {
    if constexpr (R > 0) {
        constexpr int width = R - At < tile<Real> ? R - At : tile<Real>;
        body(Width<width>{}, int64_t(At));
        if constexpr (At + width < R) for_tiles<R, Real, At + width>(rank, body);
    } else {
        int64_t at = 0;
        for (; at + tile<Real> <= rank; at += tile<Real>) body(Width<tile<Real>>{}, at);
        if constexpr (tile<Real> > strip)
            for (; at + strip <= rank; at += strip) body(Width<strip>{}, at);
        for_rest(at, rank, body);
    }
}

// out[k] = sum_a u[k][a] block[a], or, with Add, that much more
template <class T, int R, bool Add>
INLINE void contract_group(int64_t n_rows, int64_t rank, const T* const* u, const T* RESTRICT block,
                           T* const* out) {
    const int64_t stride = R > 0 ? R : rank;
    for_tiles<R, T>(rank, [&](auto width, int64_t at) {
        Row<T, decltype(width)::value> row, sum[group_size];
        for (int k = 0; k < group_size; ++k) {
            if constexpr (Add)
                sum[k].load(out[k] + at);
            else
                sum[k].clear();
        }
        for (int64_t a = 0; a < n_rows; ++a) {
            row.load(block + a * stride + at);
            for (int k = 0; k < group_size; ++k) sum[k].add(u[k][a], row);
        }
        for (int k = 0; k < group_size; ++k) sum[k].store(out[k] + at);
    });
}

// up[a] += sum_k u[k][a] acc[k]
template <class T, int R>
INLINE void gather_group(int64_t n_rows, int64_t rank, const T* const* u, const T* const* acc,
                         T* RESTRICT up) {
    const int64_t stride = R > 0 ? R : rank;
    for_tiles<R, T>(rank, [&](auto width, int64_t at) {
        Row<T, decltype(width)::value> to, sum[group_size];
        for (int k = 0; k < group_size; ++k) sum[k].load(acc[k] + at);
        for (int64_t a = 0; a < n_rows; ++a) {
            to.load(up + a * stride + at);
            for (int k = 0; k < group_size; ++k) to.add(u[k][a], sum[k]);
            to.store(up + a * stride + at);
        }
    });
}

// grad[k][a] += block[a] . acc[k]
template <class T, int R>
INLINE void dot_group(int64_t n_rows, int64_t rank, const T* block, const T* const* acc,
                      T* const* grad) {
    if constexpr (R > 0) {
        ThinRow<T, R> row, sum;
        for (int k = 0; k < group_size; ++k) {
            sum.load(acc[k]);
            for (int64_t a = 0; a < n_rows; ++a) {
                row.load(block + a * R);
                grad[k][a] += row.dot(sum);
            }
        }
    } else {
        for (int64_t a = 0; a < n_rows; ++a) {
            Row<T, strip> row, other, sum[group_size];
            for (int k = 0; k < group_size; ++k) sum[k].clear();
            int64_t at = 0;
            for (; at + strip <= rank; at += strip) {
                row.load(block + a * rank + at);
                for (int k = 0; k < group_size; ++k) {
                    other.load(acc[k] + at);
                    sum[k].add(row, other);
                }
            }
            for (int k = 0; k < group_size; ++k) grad[k][a] += sum[k].total();
            for_rest(at, rank, [&](auto width, int64_t rest) {
                Row<T, decltype(width)::value> last, last_other;
                last.load(block + a * rank + rest);
                for (int k = 0; k < group_size; ++k) {
                    last_other.load(acc[k] + rest);
                    grad[k][a] += last.dot(last_other);
                }
            });
        }
    }
}

// K rows: a group of real ones, or one.
template <class T, int R, bool Add, int K>
INLINE void contract_rows(int64_t n_rows, int64_t rank, const T* const* u, const T* block,
                          T* const* out) {
    if constexpr (K == 1) {
        contract_one<T, R, Add>(n_rows, rank, u[0], block, out[0]);
    } else {
        contract_group<T, R, Add>(n_rows, rank, u, block, out);
    }
}

// `transposed` is the block with its rows and columns exchanged, or null.
template <class T, int R, int K>
INLINE void fold_rows(int64_t n_rows, int64_t rank, const T* const* u, const T* block,
                      const T* transposed, const T* const* acc, T* const* grad, T* up) {
    if constexpr (K == 1) {
        fold_one<T, R>(n_rows, rank, u[0], block, acc[0], grad[0], up);
    } else {
        gather_group<T, R>(n_rows, rank, u, acc, up);
        if constexpr (R > 0) {
            if (transposed) {
                contract_group<T, R, true>(R, rank, acc, transposed, grad);
                return;
            }
        }
        dot_group<T, R>(n_rows, rank, block, acc, grad);
    }
}

template <class T>
constexpr bool has_groups = Parts<T>::channels == 1;

// Up to group_size nodes, of which most have blocks of a length that the compiler does not know.
template <class T>
void contract(int64_t count, int64_t n_rows, int64_t rank, const T* const* u, const T* block,
              T* const* out, bool add) {
    if constexpr (has_groups<T>) {
        if (count == group_size) {
            if (add)
                contract_group<T, 0, true>(n_rows, rank, u, block, out);
            else
                contract_group<T, 0, false>(n_rows, rank, u, block, out);
            return;
        }
    }
    for (int64_t k = 0; k < count; ++k) {
        if (add)
            contract_one<T, 0, true>(n_rows, rank, u[k], block, out[k]);
        else
            contract_one<T, 0, false>(n_rows, rank, u[k], block, out[k]);
    }
}

template <class T>
void fold(int64_t count, int64_t n_rows, int64_t rank, const T* const* u, const T* block,
          const T* const* acc, T* const* grad, T* up) {
    if constexpr (has_groups<T>) {
        if (count == group_size) {
            fold_rows<T, 0, group_size>(n_rows, rank, u, block, nullptr, acc, grad, up);
            return;
        }
    }
    for (int64_t k = 0; k < count; ++k)
        fold_one<T, 0>(n_rows, rank, u[k], block, acc[k], grad[k], up);
}

}  // namespace
}  // namespace tensormend::TENSORMEND_TARGET
