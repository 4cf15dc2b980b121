// Products of matrices of many rows and few real columns, in threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dispatch.hpp"
#include "padding.hpp"
#include "parallel.hpp"

namespace tensormend {

inline int64_t pad_to_unit(int64_t rank) {
    return (rank + panel_unit - 1) / panel_unit * panel_unit;
}

// Cut a range into chunks, by its length alone: body(chunk, begin, end)
template <class Body>
void for_row_chunks(int64_t n_rows, int64_t min_rows, int64_t threads, const Body& body) {
    const int64_t n_chunks = std::max<int64_t>(1, std::min(max_chunks, n_rows / min_rows));
    const int64_t n_units = (n_rows + panel_unit - 1) / panel_unit;
    const auto edge = [&](int64_t k) {
        return std::min(n_rows, n_units * k / n_chunks * panel_unit);
    };
    run_tasks(n_chunks, threads, [&](int64_t c) { body(c, edge(c), edge(c + 1)); });
}

constexpr int64_t min_panel_rows = 32 * panel_block;

// A small matrix in double precision with padded rows.
class PaddedMatrix {
public:
    template <class T>
    PaddedMatrix(const T* data, int64_t n_rows, int64_t rank)
        : padded_(pad_to_unit(rank)), buffer_(n_rows * padded_) {
        for (int64_t i = 0; i < n_rows; ++i)
            for (int64_t k = 0; k < rank; ++k)
                buffer_.data()[i * padded_ + k] = double(data[i * rank + k]);
    }

    const double* data() const { return buffer_.data(); }

private:
    int64_t padded_;
    Buffer<double> buffer_;
};

// Sums of small matrices (rank x padded) that the chunks compute, added in their order.
class ChunkSums {
public:
    explicit ChunkSums(int64_t rank)
        : rank_(rank), padded_(pad_to_unit(rank)), parts_(max_chunks * rank * padded_) {}

    double* part(int64_t c) const { return parts_.data() + c * rank_ * padded_; }

    void finish(double* sum) const {  // chunks that are not there add the zeros of the buffer
        std::fill_n(sum, rank_ * rank_, 0.0);
        for (int64_t c = 0; c < max_chunks; ++c)
            for (int64_t i = 0; i < rank_; ++i)
                add_to(sum + i * rank_, part(c) + i * padded_, rank_);
    }

private:
    int64_t rank_, padded_;
    Buffer<double> parts_;
};

// v^T z and z^T z of panels of n_rows x rank
template <class T>
void panel_products(int64_t n_rows, int64_t rank, const T* v, const Moved<T>& z, double* vz,
                    double* zz, int64_t threads) {
    const auto loops = pick_panel_loops<T>();
    const int64_t padded = pad_to_unit(rank);
    const ChunkSums vz_sums(rank), zz_sums(rank);
    for_row_chunks(n_rows, min_panel_rows, threads, [&](int64_t c, int64_t begin, int64_t end) {
        const Buffer<double> block(panel_block * padded);
        loops.gram(begin, end, rank, padded, v, z, vz_sums.part(c), zz_sums.part(c), block.data());
    });
    vz_sums.finish(vz);
    zz_sums.finish(zz);
}

// out = [v z] matrix, the matrix being 2 rank x rank, and gram = out^T out
template <class T>
void panel_combine(int64_t n_rows, int64_t rank, const T* v, const Moved<T>& z,
                   const double* matrix, T* out, double* gram, int64_t threads) {
    const auto loops = pick_panel_loops<T>();
    const int64_t padded = pad_to_unit(rank);
    const PaddedMatrix mix(matrix, 2 * rank, rank);
    const ChunkSums sums(rank);
    for_row_chunks(n_rows, min_panel_rows, threads, [&](int64_t c, int64_t begin, int64_t end) {
        const Buffer<double> blocks(2 * panel_block * padded);
        loops.mix(begin, end, rank, padded, v, z, mix.data(), out, sums.part(c), blocks.data());
    });
    sums.finish(gram);
}

// out[p] = left matrices[p]: left is n_rows x width, every matrix width x rank
template <class T>
void panel_multiply(int64_t n_rows, int64_t width, const T* left, int64_t n_matrices,
                    const T* matrices, int64_t rank, T* out, int64_t threads) {
    const auto loops = pick_panel_loops<T>();
    const int64_t padded = pad_to_unit(rank);
    // about so many products are worth a task
    constexpr int64_t min_products = int64_t(1) << 16;
    const auto multiply = [&](int64_t p, const PaddedMatrix& matrix, int64_t begin, int64_t end,
                              double* block) {
        loops.multiply(begin, end, width, left, matrix.data(), rank, padded,
                       out + p * n_rows * rank, block);
    };
    const int64_t row_products = std::max<int64_t>(1, width * padded);
    if (n_matrices == 1) {
        const PaddedMatrix matrix(matrices, width, rank);
        for_row_chunks(n_rows, std::max<int64_t>(panel_unit, min_products / row_products), threads,
                       [&](int64_t, int64_t begin, int64_t end) {
                           const Buffer<double> block(panel_block * padded);
                           multiply(0, matrix, begin, end, block.data());
                       });
        return;
    }
    const int64_t per_matrix = std::max<int64_t>(1, n_rows * row_products);
    for_row_chunks(n_matrices, std::max<int64_t>(panel_unit, min_products / per_matrix), threads,
                   [&](int64_t, int64_t begin, int64_t end) {
                       const Buffer<double> block(panel_block * padded);
                       for (int64_t p = begin; p < end; ++p) {
                           const PaddedMatrix matrix(matrices + p * width * rank, width, rank);
                           multiply(p, matrix, 0, n_rows, block.data());
                       }
                   });
}

// out = left^T right: left is n_rows x width, right n_rows x rank
template <class T>
void panel_adjoint(int64_t n_rows, int64_t width, const T* left, const T* right, int64_t rank,
                   T* out, int64_t threads) {
    const auto loops = pick_panel_loops<T>();
    const int64_t padded = pad_to_unit(rank);
    const PaddedMatrix padded_right(right, n_rows, rank);
    constexpr int64_t min_columns = 16 * panel_unit;
    for_row_chunks(width, min_columns, threads, [&](int64_t, int64_t begin, int64_t end) {
        const Buffer<double> sums((end - begin) * padded);
        loops.adjoint(begin, end, width, n_rows, left, padded_right.data(), rank, padded, out,
                      sums.data());
    });
}

}  // namespace tensormend
