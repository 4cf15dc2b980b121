// Loops over the entries of one fibre.
#pragma once

#include "quads.hpp"
#include "row.hpp"

namespace tensormend::TENSORMEND_TARGET {
namespace {

// Loops with R = 0 take rows of any length.
template <class Real>
INLINE Real dot(int64_t rank, const Real* RESTRICT a, const Real* RESTRICT b) {
    Row<Real, strip> left, right, sum;
    sum.clear();
    int64_t k = 0;
    for (; k + strip <= rank; k += strip) {
        left.load(a + k);
        right.load(b + k);
        sum.add(left, right);
    }
    Real total = sum.total();
    for_rest(k, rank, [&](auto width, int64_t at) {
        Row<Real, decltype(width)::value> last_left, last_right;
        last_left.load(a + at);
        last_right.load(b + at);
        total += last_left.dot(last_right);
    });
    return total;
}

template <class Real>
INLINE Complex<Real> dot(int64_t rank, const Complex<Real>* a, const Complex<Real>* b) {
    Complex<Real> sum{};
    for (int64_t k = 0; k < rank; ++k) add_product(sum, a[k], b[k]);
    return sum;
}

// to += g conj(row)
template <class Real>
INLINE void add_row(int64_t rank, Real g, const Real* RESTRICT row, Real* RESTRICT to) {
    const auto add = [&](auto width, int64_t at) {
        Row<Real, decltype(width)::value> from, into;
        from.load(row + at);
        into.load(to + at);
        into.add(g, from);
        into.store(to + at);
    };
    int64_t k = 0;
    for (; k + strip <= rank; k += strip) add(Width<strip>{}, k);
    for_rest(k, rank, add);
}

template <class Real>
INLINE void add_row(int64_t rank, Complex<Real> g, const Complex<Real>* RESTRICT row,
                    Complex<Real>* RESTRICT to) {
    for (int64_t k = 0; k < rank; ++k) add_product_conj(to[k], g, row[k]);
}

// `evaluate`, with the values kept or only their squared norm. A rank known to the compiler (R > 0)
// lets it unroll the loops and hold the row of the fibre in registers.
template <class T, int R, bool Keep>
INLINE double evaluate_rows(int64_t count, int64_t rank, const uint32_t* RESTRICT leaves,
                            const T* RESTRICT left, const T* RESTRICT b, T* RESTRICT out) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    double norm = 0;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        ThinRow<Real, W> u, row[C];
        load_spread<R>(b, row);
        const auto visit = [&](int64_t e) INLINE_LAMBDA {
            u.load(reals(left) + int64_t(leaves[e]) * W);
            for (int c = 0; c < C; ++c) {
                const Real value = u.dot(row[c]);
                if constexpr (Keep)
                    reals(out)[C * e + c] = value;
                else
                    norm += double(value) * double(value);
            }
        };
        int64_t e = 0;
#if defined(TENSORMEND_WIDE)
        if constexpr (has_quads<T, R>)
            e = evaluate_quads<R, Keep>(count, leaves, left, b, out, norm);
#endif
        if constexpr (W == 2) {
            UNROLL_4
            for (; e < count; ++e) visit(e);
        } else {
            UNROLL_2
            for (; e < count; ++e) visit(e);
        }
    } else {
        for (int64_t e = 0; e < count; ++e) {
            const T value = dot(rank, left + int64_t(leaves[e]) * rank, b);
            if constexpr (Keep)
                out[e] = value;
            else
                norm += squared(value);
        }
    }
    return norm;
}

template <class T, int R>
NOINLINE double evaluate(int64_t count, int64_t rank, const uint32_t* leaves, const T* left,
                         const T* b, T* out) {
    if (out) return evaluate_rows<T, R, true>(count, rank, leaves, left, b, out);
    return evaluate_rows<T, R, false>(count, rank, leaves, left, b, out);
}

#if defined(__GNUC__) && defined(__AVX2__)
// Two entries at a time share the vectors of the number that a row has beyond whole ones and of the
// residual. That pays for rows of one vector and a number where a fibre is long; for longer rows
// there are too few registers.
template <class T, int R>
constexpr bool has_pairs = false;
template <>
constexpr bool has_pairs<double, 5> = true;
constexpr int64_t long_fibre = 24;

using Two = Lanes<double, 2>::type;
using TwoInMemory = Lanes<double, 2>::in_memory;

INLINE Two load_two(const double* matrix, int64_t& one, int64_t& other) {
    Two found = {matrix[one], 0};
    hide(one, found);
    found[1] = matrix[other];
    hide(other, found);
    return found;
}

// `fibre_gradient` for all pairs of entries: sets `sum`, adds to `norm`, returns how many entries
// are done.
template <int R, bool Keep>
INLINE int64_t gradient_pairs(int64_t count, const uint32_t* RESTRICT leaves,
                              const double* RESTRICT y, const double* RESTRICT left,
                              const double* b, const double* v, double* RESTRICT along,
                              double* RESTRICT residual, Row<double, R>& sum, double& norm) {
    constexpr int W = R - 1;
    Row<double, W, thin_lanes(R, 4)> minus;
    Row<double, W> out, one_sum, other_sum;
    minus.load(b);
    minus.negate();
    out.load(v);
    one_sum.clear();
    other_sum.clear();
    const Two last_minus = {-b[W], -b[W]}, last_out = {v[W], v[W]};
    const typename decltype(minus)::Vector none{};
    Two last_sum{}, squares{};
    int64_t e = 0;
    for (; e + 2 <= count; e += 2) {
        int64_t one = int64_t(leaves[e]) * R, other = int64_t(leaves[e + 1]) * R;
        const Two p = minus.template sum_row<2>(none, left, one);
        const Two q = minus.template sum_row<2>(none, left, other);
        const Two last = load_two(left + W, one, other);
        const Two g = *reinterpret_cast<const TwoInMemory*>(y + e) + last * last_minus +
                      Two{p[0], q[0]} + Two{p[1], q[1]};
        if constexpr (Keep) *reinterpret_cast<TwoInMemory*>(residual + e) = g;
        squares += g * g;
        last_sum += g * last;
        one_sum.add_row(g[0], left, one);
        other_sum.add_row(g[1], left, other);
        out.add_to_row(along, one, g[0]);
        out.add_to_row(along, other, g[1]);
        Two to = load_two(along + W, one, other) + g * last_out;
        hide(one, to);
        along[one + W] = to[0];
        along[other + W] = to[1];
    }
    double row[R];
    one_sum.add(1, other_sum);
    one_sum.store(row);
    row[W] = last_sum[0] + last_sum[1];
    sum.load(row);
    norm += squares[0] + squares[1];
    return e;
}
#endif

// `fibre_gradient` for a rank known to the compiler, with or without the residual itself.
template <class T, int R, bool Keep>
INLINE double gradient_rows(int64_t count, const uint32_t* RESTRICT leaves, const T* RESTRICT y,
                            const T* RESTRICT left, const T* b, const T* v, T* RESTRICT acc,
                            T* RESTRICT along, T* RESTRICT residual) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    constexpr int W = C * R;
    ThinRow<Real, W> minus[C];
    Row<Real, W> out[C], sum[C];
    load_spread<R>(b, minus);
    load_spread<R>(v, out);
    for (int c = 0; c < C; ++c) minus[c].negate();
    for (int c = 0; c < C; ++c) sum[c].clear();
    double norm = 0;
    int64_t e = 0;
#if defined(__GNUC__) && defined(__AVX2__)
    if constexpr (has_pairs<T, R>) {
        if (count >= long_fibre)
            e = gradient_pairs<R, Keep>(count, leaves, y, left, b, v, along, residual, *sum, norm);
    }
#endif
#if defined(TENSORMEND_WIDE)
    if constexpr (has_quads<T, R>) {
        e = gradient_quads<R, 1, true, Keep>(count, leaves, y, left, b, v, acc, along, residual,
                                             norm);
        sum[0].load(acc);
    }
#endif
    const auto visit = [&](int64_t e) INLINE_LAMBDA {
        int64_t at = int64_t(leaves[e]) * W;
        Real g[C];
        for (int c = 0; c < C; ++c) {
            g[c] = minus[c].dot_row(reals(y)[C * e + c], reals(left), at);
            norm += double(g[c]) * double(g[c]);
            if constexpr (Keep) reals(residual)[C * e + c] = g[c];
        }
        for (int c = 0; c < C; ++c) sum[c].add_row(g[c], reals(left), at);
        if constexpr (C == 1)
            out[0].add_to_row(reals(along), at, g[0]);
        else
            out[0].add_to_row(reals(along), at, g[0], g[1], out[1]);
    };
    if constexpr (W == 2) {
        UNROLL_2
        for (; e < count; ++e) visit(e);
    } else {
        for (; e < count; ++e) visit(e);
    }
    store_conj<R>(sum, acc);
    return norm;
}

// b and v may be the same row: both are only read.
template <class T, int R>
NOINLINE double fibre_gradient(int64_t count, int64_t rank, const uint32_t* RESTRICT leaves,
                               const T* RESTRICT y, const T* RESTRICT left, const T* b, const T* v,
                               T* RESTRICT acc, T* RESTRICT along, T* RESTRICT residual) {
    if constexpr (R > 0) {
        if (residual)
            return gradient_rows<T, R, true>(count, leaves, y, left, b, v, acc, along, residual);
        return gradient_rows<T, R, false>(count, leaves, y, left, b, v, acc, along, residual);
    } else {
        double norm = 0;
        for (int64_t k = 0; k < rank; ++k) acc[k] = T{};
        for (int64_t e = 0; e < count; ++e) {
            const int64_t at = int64_t(leaves[e]) * rank;
            const T g = difference(y[e], dot(rank, left + at, b));
            norm += squared(g);
            add_row(rank, g, left + at, acc);
            add_row(rank, g, v, along + at);
            if (residual) residual[e] = g;
        }
        return norm;
    }
}

// Like fibre_gradient with the values themselves for a residual, taken from rows of twice the
// length.
template <class T, int R>
NOINLINE double fibre_gradient_wide(int64_t count, int64_t rank, const uint32_t* RESTRICT leaves,
                                    const T* RESTRICT left, const T* RESTRICT wide,
                                    const T* RESTRICT b, T* RESTRICT acc, T* RESTRICT along) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    double norm = 0;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, 2 * W> both, row[C];
        Row<Real, W> u, to, out[C], sum[C];
        load_spread<2 * R>(wide, row);
        load_spread<R>(b, out);
        for (int c = 0; c < C; ++c) sum[c].clear();
        int64_t e = 0;
#if defined(TENSORMEND_WIDE)
        if constexpr (has_quads<T, R>) {
            e = gradient_quads<R, 2, false, false, Real>(count, leaves, nullptr, left, wide, b, acc,
                                                         along, nullptr, norm);
            sum[0].load(acc);
        }
#endif
        for (; e < count; ++e) {
            const int64_t leaf = int64_t(leaves[e]);
            both.load(reals(left) + leaf * 2 * W);
            u.load(reals(left) + leaf * 2 * W);
            to.load(reals(along) + leaf * W);
            for (int c = 0; c < C; ++c) {
                const Real g = both.dot(row[c]);
                norm += double(g) * double(g);
                sum[c].add(g, u);
                to.add(g, out[c]);
            }
            to.store(reals(along) + leaf * W);
        }
        store_conj<R>(sum, acc);
    } else {
        for (int64_t k = 0; k < rank; ++k) acc[k] = T{};
        for (int64_t e = 0; e < count; ++e) {
            const int64_t leaf = int64_t(leaves[e]);
            const T* const u = left + leaf * 2 * rank;
            const T g = dot(2 * rank, u, wide);
            norm += squared(g);
            add_row(rank, g, u, acc);
            add_row(rank, g, b, along + leaf * rank);
        }
    }
    return norm;
}

template <class T, int R>
NOINLINE void gather(int64_t count, int64_t rank, const uint32_t* RESTRICT leaves,
                     const T* RESTRICT y, const T* RESTRICT left, T* RESTRICT acc) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> u, sum[C];
        for (int c = 0; c < C; ++c) sum[c].clear();
        int64_t e = 0;
#if defined(TENSORMEND_WIDE)
        if constexpr (has_quads<T, R>) {
            e = gather_quads<R>(count, leaves, y, left, acc);
            sum[0].load(acc);
        }
#endif
        for (; e < count; ++e) {
            u.load(reals(left) + int64_t(leaves[e]) * W);
            for (int c = 0; c < C; ++c) sum[c].add(reals(y)[C * e + c], u);
        }
        store_conj<R>(sum, acc);
    } else {
        for (int64_t k = 0; k < rank; ++k) acc[k] = T{};
        for (int64_t e = 0; e < count; ++e)
            add_row(rank, y[e], left + int64_t(leaves[e]) * rank, acc);
    }
}

template <class T, int R>
NOINLINE void scatter(int64_t count, int64_t rank, const uint32_t* RESTRICT leaves,
                      const T* RESTRICT y, const T* RESTRICT v, T* RESTRICT along) {
    using Real = typename Parts<T>::Real;
    constexpr int C = Parts<T>::channels;
    if constexpr (R > 0) {
        constexpr int W = C * R;
        Row<Real, W> to, out[C];
        load_spread<R>(v, out);
        for (int64_t e = 0; e < count; ++e) {
            Real* const at = reals(along) + int64_t(leaves[e]) * W;
            to.load(at);
            for (int c = 0; c < C; ++c) to.add(reals(y)[C * e + c], out[c]);
            to.store(at);
        }
    } else {
        for (int64_t e = 0; e < count; ++e)
            add_row(rank, y[e], v, along + int64_t(leaves[e]) * rank);
    }
}

}  // namespace
}  // namespace tensormend::TENSORMEND_TARGET
