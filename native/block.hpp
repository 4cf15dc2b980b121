// Products of tall matrices that have few columns, in blocks of rows.
//
// Sums are in double precision, also those of single precision. Small matrices, and blocks of rows
// that are read as vectors, have rows filled up with zeros to whole vectors (`padded` numbers).
#pragma once

#include "row.hpp"

namespace tensormend::TENSORMEND_TARGET {
namespace {

constexpr int sum_lanes = vector_bytes >= 16 ? vector_bytes / 8 : 1;
static_assert(panel_unit % sum_lanes == 0, "padded rows consist of whole vectors");
using Sums = typename Lanes<double, sum_lanes>::type;
using SumsInMemory = typename Lanes<double, sum_lanes>::in_memory;

INLINE Sums load_sums(const double* from) {
    return *reinterpret_cast<const SumsInMemory*>(from);
}

INLINE void store_sums(double* to, Sums sums) {
    *reinterpret_cast<SumsInMemory*>(to) = sums;
}

// Call body(Width, first) for pieces of a range: so many whole ones, then what is left of one.
template <int Piece, class Body>
INLINE void for_parts(int64_t begin, int64_t end, const Body& body) {
    for (; begin + Piece <= end; begin += Piece) body(Width<Piece>{}, begin);
    if constexpr (Piece > 1) {
        if (begin < end) for_parts<Piece - 1>(begin, end, body);
    }
}

// sums[i] += sum over t of a[t][i] times the vectors of b[t]: I numbers times J vectors
template <int I, int J, class Real>
INLINE void add_products(int64_t count, const Real* a, int64_t a_stride, const double* b,
                         int64_t padded, double* sums) {
    Sums acc[I][J];
    for (int i = 0; i < I; ++i)
        for (int j = 0; j < J; ++j) acc[i][j] = load_sums(sums + i * padded + j * sum_lanes);
    for (int64_t t = 0; t < count; ++t) {
        Sums row[J];
        for (int j = 0; j < J; ++j) row[j] = load_sums(b + t * padded + j * sum_lanes);
        for (int i = 0; i < I; ++i) {
            const double factor = double(a[t * a_stride + i]);
            for (int j = 0; j < J; ++j) acc[i][j] += factor * row[j];
        }
    }
    for (int i = 0; i < I; ++i)
        for (int j = 0; j < J; ++j) store_sums(sums + i * padded + j * sum_lanes, acc[i][j]);
}

// sums (n_a x padded) += a^T b for `count` rows a[t] of n_a numbers, and b[t] of n_vectors vectors
template <class Real>
NOINLINE void add_gram(int64_t count, const Real* a, int64_t a_stride, int64_t n_a, const double* b,
                       int64_t n_vectors, int64_t padded, double* sums) {
    for_parts<2>(0, n_vectors, [&](auto width, int64_t j) INLINE_LAMBDA {
        for_parts<5>(0, n_a, [&](auto height, int64_t i) INLINE_LAMBDA {
            add_products<decltype(height)::value, decltype(width)::value>(
                count, a + i, a_stride, b + j * sum_lanes, padded,
                sums + i * padded + j * sum_lanes);
        });
    });
}

// A matrix that is added to a combination of rows.
template <class Real>
struct Term {
    const Real* in;
    int64_t stride, n;
    const double* matrix;
};

// acc += in[t] matrix for T rows and J vectors, `in` and `matrix` beginning with the first of them
template <int T, int J, class Real>
INLINE void add_term(const Term<Real>& term, int64_t t, int64_t j, int64_t padded,
                     Sums (&acc)[T][J]) {
    const Real* const in = term.in + t * term.stride;
    const double* const matrix = term.matrix + j * sum_lanes;
    for (int64_t i = 0; i < term.n; ++i) {
        Sums row[J];
        for (int k = 0; k < J; ++k) row[k] = load_sums(matrix + i * padded + k * sum_lanes);
        for (int s = 0; s < T; ++s) {
            const double factor = double(in[s * term.stride + i]);
            for (int k = 0; k < J; ++k) acc[s][k] += factor * row[k];
        }
    }
}

// T rows from row t on, and J vectors from vector j on, of a sum over terms
template <int T, int J, class... Terms>
INLINE void combine_piece(int64_t t, int64_t j, int64_t padded, double* out,
                          const Terms&... terms) {
    Sums acc[T][J];
    for (int s = 0; s < T; ++s)
        for (int k = 0; k < J; ++k) acc[s][k] = Sums{};
    (add_term<T, J>(terms, t, j, padded, acc), ...);
    for (int s = 0; s < T; ++s)
        for (int k = 0; k < J; ++k)
            store_sums(out + (t + s) * padded + (j + k) * sum_lanes, acc[s][k]);
}

// out[t] = sum over terms, and over i, of in[t][i] matrix[i] for `count` rows
template <class... Terms>
NOINLINE void combine(int64_t count, int64_t n_vectors, int64_t padded, double* out,
                      const Terms&... terms) {
    for_parts<2>(0, n_vectors, [&](auto width, int64_t j) INLINE_LAMBDA {
        for_parts<4>(0, count, [&](auto height, int64_t t) INLINE_LAMBDA {
            combine_piece<decltype(height)::value, decltype(width)::value>(t, j, padded, out,
                                                                           terms...);
        });
    });
}

// Call body(Width<R>) for the rank R of short rows, whose loops the compiler then unrolls, and
// body(Width<0>) for others.
template <int Max, class Body>
INLINE void for_rank(int64_t rank, const Body& body) {
    if constexpr (Max == 0) {
        body(Width<0>{});
    } else {
        if (rank == Max)
            body(Width<Max>{});
        else
            for_rank<Max - 1>(rank, body);
    }
}

constexpr int short_row = 8;

// Rows of base + step * across; what fills them up is zero already.
template <class Real>
NOINLINE void move_rows(int64_t count, int64_t rank, const Moved<Real>& z, int64_t first,
                        int64_t padded, double* RESTRICT block) {
    const Real* const base = z.base + first * rank;
    const Real* const across = z.across + first * rank;
    const double step = z.step;
    for_rank<short_row>(rank, [&](auto width) INLINE_LAMBDA {
        constexpr int R = decltype(width)::value;
        const int64_t n = R > 0 ? R : rank;
        for (int64_t t = 0; t < count; ++t)
            for (int64_t k = 0; k < n; ++k)
                block[t * padded + k] = double(base[t * n + k]) + step * double(across[t * n + k]);
    });
}

template <class Real>
NOINLINE void store_rows(int64_t count, int64_t rank, const double* block, int64_t padded,
                         Real* RESTRICT rows) {
    for_rank<short_row>(rank, [&](auto width) INLINE_LAMBDA {
        constexpr int R = decltype(width)::value;
        const int64_t n = R > 0 ? R : rank;
        for (int64_t t = 0; t < count; ++t)
            for (int64_t k = 0; k < n; ++k) rows[t * n + k] = Real(block[t * padded + k]);
    });
}

// Call body(first row, count) for the blocks of a range of rows.
template <class Body>
INLINE void for_blocks(int64_t begin, int64_t end, const Body& body) {
    for (; begin < end; begin += panel_block)
        body(begin, end - begin < panel_block ? end - begin : int64_t(panel_block));
}

INLINE int64_t count_vectors(int64_t rank) {
    return (rank + sum_lanes - 1) / sum_lanes;
}

template <class Real>
void panel_gram(int64_t begin, int64_t end, int64_t rank, int64_t padded, const Real* v,
                const Moved<Real>& z, double* vz, double* zz, double* block) {
    for_blocks(begin, end, [&](int64_t first, int64_t count) {
        move_rows(count, rank, z, first, padded, block);
        add_gram(count, v + first * rank, rank, rank, block, count_vectors(rank), padded, vz);
        add_gram(count, block, padded, rank, block, count_vectors(rank), padded, zz);
    });
}

template <class Real>
void panel_mix(int64_t begin, int64_t end, int64_t rank, int64_t padded, const Real* v,
               const Moved<Real>& z, const double* matrix, Real* out, double* gram,
               double* blocks) {
    double* const moved = blocks;
    double* const mixed = blocks + panel_block * padded;
    for_blocks(begin, end, [&](int64_t first, int64_t count) {
        move_rows(count, rank, z, first, padded, moved);
        combine(count, count_vectors(rank), padded, mixed,
                Term<Real>{v + first * rank, rank, rank, matrix},
                Term<double>{moved, padded, rank, matrix + rank * padded});
        add_gram(count, mixed, padded, rank, mixed, count_vectors(rank), padded, gram);
        store_rows(count, rank, mixed, padded, out + first * rank);
    });
}

template <class Real>
void panel_multiply(int64_t begin, int64_t end, int64_t width, const Real* left,
                    const double* matrix, int64_t rank, int64_t padded, Real* out, double* block) {
    for_blocks(begin, end, [&](int64_t first, int64_t count) {
        combine(count, count_vectors(rank), padded, block,
                Term<Real>{left + first * width, width, width, matrix});
        store_rows(count, rank, block, padded, out + first * rank);
    });
}

template <class Real>
void panel_adjoint(int64_t begin, int64_t end, int64_t width, int64_t n_rows, const Real* left,
                   const double* right, int64_t rank, int64_t padded, Real* out, double* sums) {
    constexpr int64_t few = 16;  // rows, of which the part for one chunk stays in cache
    for (int64_t t = 0; t < n_rows; t += few)
        add_gram(n_rows - t < few ? n_rows - t : few, left + t * width + begin, width, end - begin,
                 right + t * padded, count_vectors(rank), padded, sums);
    store_rows(end - begin, rank, sums, padded, out + begin * rank);
}

}  // namespace
}  // namespace tensormend::TENSORMEND_TARGET
