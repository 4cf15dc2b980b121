// Loops over the entries of a fibre, four at a time, for rows of whole vectors of 64 bytes: the
// products of the four are added up across lanes together, which takes a third of the instructions
// of adding up each. Only where the processor has such vectors.
#pragma once

#include "row.hpp"

namespace tensormend::TENSORMEND_TARGET {
namespace {

template <class T, int R>
constexpr bool has_quads = false;

#if defined(TENSORMEND_WIDE)
template <int R>
constexpr bool has_quads<double, R> = R > 0 && R % 8 == 0;
template <int R>
constexpr bool has_quads<float, R> = R > 0 && R % 8 == 0;

// The longest vector of which a row is made up.
template <class Real, int R>
constexpr int quad_lanes = sizeof(Real) == 4 && R % 16 == 0 ? 16 : 8;

template <class Real, int R>
using QuadRow = Row<Real, R, quad_lanes<Real, R>>;

template <class Real>
using Quad = typename Lanes<Real, 4>::type;
template <class Real>
using QuadInMemory = typename Lanes<Real, 4>::in_memory;
template <class Real, int N>
using Vector = typename Lanes<Real, N>::type;

// The sums of the lanes of four vectors.
INLINE Quad<double> add_four(Vector<double, 8> a, Vector<double, 8> b, Vector<double, 8> c,
                             Vector<double, 8> d) {
    const auto ab = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
                    __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    const auto cd = __builtin_shufflevector(c, d, 0, 8, 2, 10, 4, 12, 6, 14) +
                    __builtin_shufflevector(c, d, 1, 9, 3, 11, 5, 13, 7, 15);
    const auto all = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                     __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
    return add_lanes<double, 8, 4>(all);
}

INLINE Quad<float> add_four(Vector<float, 8> a, Vector<float, 8> b, Vector<float, 8> c,
                            Vector<float, 8> d) {
    const auto ab = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) +
                    __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
    const auto cd = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13) +
                    __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
    const auto all = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                     __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
    return add_lanes<float, 8, 4>(all);
}

INLINE Quad<float> add_four(Vector<float, 16> a, Vector<float, 16> b, Vector<float, 16> c,
                            Vector<float, 16> d) {
    const auto ab =
        __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
        __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    const auto cd =
        __builtin_shufflevector(c, d, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
        __builtin_shufflevector(c, d, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    const auto all =
        __builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
        __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    return add_lanes<float, 16, 4>(all);
}

// Short rows are summed in several sums, lest each addition waits for the one before.
constexpr int count_sums(int n_vectors) {
    return n_vectors <= 2 ? 4 : n_vectors <= 4 ? 2 : 1;
}

template <class Real, int R>
constexpr int n_sums = count_sums(R / quad_lanes<Real, R>);

// Rows of four entries in a matrix with rows of `stride`.
template <class Real>
INLINE void find_rows(const uint32_t* leaves, int64_t stride, Real* matrix, Real** rows) {
    for (int k = 0; k < 4; ++k) rows[k] = matrix + int64_t(leaves[k]) * stride;
}

// The products of four rows, `width` long, with the same row.
template <int Width, class Real>
INLINE Quad<Real> multiply_rows(const Real* const* rows, const QuadRow<Real, Width>& row) {
    typename QuadRow<Real, Width>::Vector products[4];
    for (int k = 0; k < 4; ++k) {
        QuadRow<Real, Width> u;
        u.load(rows[k]);
        products[k] = u.multiply(row);
    }
    return add_four(products[0], products[1], products[2], products[3]);
}

// `evaluate`: adds to `norm` where values are not kept, returns how many entries are done.
template <int R, bool Keep, class Real>
INLINE int64_t evaluate_quads(int64_t count, const uint32_t* RESTRICT leaves,
                              const Real* RESTRICT left, const Real* RESTRICT b, Real* RESTRICT out,
                              double& norm) {
    QuadRow<Real, R> row;
    row.load(b);
    Quad<double> squares{};
    int64_t e = 0;
    for (; e + 4 <= count; e += 4) {
        const Real* u[4];
        find_rows(leaves + e, R, left, u);
        const Quad<Real> values = multiply_rows<R>(u, row);
        if constexpr (Keep) {
            *reinterpret_cast<QuadInMemory<Real>*>(out + e) = values;
        } else {
            const auto wide = __builtin_convertvector(values, Quad<double>);
            squares += wide * wide;
        }
    }
    if constexpr (!Keep) norm += add_lanes<double, 4, 1>(squares);
    return e;
}

// With the values of a row `wide` (D rows long) at the rows of `left`, or, if there is y, with y
// minus these: sets acc to the sum of these numbers times the first R of the rows, adds them times
// b to the rows of `along` and their squares to `norm`. Returns how many entries are done.
template <int R, int D, bool HasY, bool Keep, class Real>
INLINE int64_t gradient_quads(int64_t count, const uint32_t* RESTRICT leaves,
                              const Real* RESTRICT y, const Real* RESTRICT left, const Real* wide,
                              const Real* b, Real* acc, Real* RESTRICT along,
                              Real* RESTRICT residual, double& norm) {
    constexpr int S = n_sums<Real, R>;
    QuadRow<Real, D * R> row;
    QuadRow<Real, R> out, sum, second, third, fourth;  // an array would be kept in memory
    row.load(wide);
    if constexpr (HasY) row.negate();
    out.load(b);
    sum.clear();
    second.clear();
    third.clear();
    fourth.clear();
    Quad<double> squares{};
    int64_t e = 0;
    for (; e + 4 <= count; e += 4) {
        const Real* u[4];
        Real* to[4];
        find_rows(leaves + e, D * R, left, u);
        find_rows(leaves + e, R, along, to);
        Quad<Real> g = multiply_rows<D * R>(u, row);
        if constexpr (HasY) g += *reinterpret_cast<const QuadInMemory<Real>*>(y + e);
        if constexpr (Keep) *reinterpret_cast<QuadInMemory<Real>*>(residual + e) = g;
        const auto double_g = __builtin_convertvector(g, Quad<double>);
        squares += double_g * double_g;
        // read from memory into all lanes, which costs less than moving them between lanes
        alignas(Quad<Real>) Real factors[4];
        __builtin_memcpy(factors, &g, sizeof g);
        asm("" : "+m"(factors));
        sum.add_at(factors[0], u[0]);
        (S > 1 ? second : sum).add_at(factors[1], u[1]);
        (S > 2 ? third : sum).add_at(factors[2], u[2]);
        (S > 2 ? fourth : S > 1 ? second : sum).add_at(factors[3], u[3]);
        for (int k = 0; k < 4; ++k) {
            QuadRow<Real, R> moved;
            moved.load(to[k]);
            moved.add(factors[k], out);
            moved.store(to[k]);
        }
    }
    third.add(1, fourth);
    second.add(1, third);
    sum.add(1, second);
    sum.store(acc);
    norm += add_lanes<double, 4, 1>(squares);
    return e;
}

// acc = sum y rows; returns how many entries are done.
template <int R, class Real>
INLINE int64_t gather_quads(int64_t count, const uint32_t* RESTRICT leaves, const Real* RESTRICT y,
                            const Real* RESTRICT left, Real* acc) {
    constexpr bool has_two = n_sums<Real, R> > 1;
    QuadRow<Real, R> sum, other;
    sum.clear();
    other.clear();
    int64_t e = 0;
    for (; e + 4 <= count; e += 4) {
        const Real* u[4];
        find_rows(leaves + e, R, left, u);
        sum.add_at(y[e], u[0]);
        (has_two ? other : sum).add_at(y[e + 1], u[1]);
        sum.add_at(y[e + 2], u[2]);
        (has_two ? other : sum).add_at(y[e + 3], u[3]);
    }
    sum.add(1, other);
    sum.store(acc);
    return e;
}
#endif

}  // namespace
}  // namespace tensormend::TENSORMEND_TARGET
