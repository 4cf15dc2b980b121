// Bring entries into the order of a tree of fibres.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "parallel.hpp"

namespace tensormend {

// Write the columns of an m x d array of coordinates one by one. Returns the first row with a
// coordinate that is negative or not below its bound, or -1; what is written then means nothing.
template <class Index>
int64_t split_rows(const Index* rows, int64_t n_rows, const std::vector<int64_t>& bounds,
                   const std::vector<uint32_t*>& columns, int64_t threads) {
    constexpr int64_t block = 65536;
    const size_t d = bounds.size();
    std::vector<int64_t> bad(size_t((n_rows + block - 1) / block), -1);
    run_tasks(int64_t(bad.size()), threads, [&](int64_t b) {
        for (int64_t i = b * block; i < std::min(n_rows, (b + 1) * block); ++i) {
            const Index* const row = rows + i * int64_t(d);
            bool is_bad = false;
            for (size_t k = 0; k < d; ++k) {
                is_bad |= uint64_t(int64_t(row[k])) >= uint64_t(bounds[k]);  // negative ones wrap around
                columns[k][i] = uint32_t(row[k]);
            }
            if (is_bad) {
                bad[size_t(b)] = i;
                return;
            }
        }
    });
    for (const int64_t row : bad)
        if (row >= 0) return row;
    return -1;
}

// Coordinates of one mode, below `bound`.
struct Column {
    const uint32_t* data;
    int64_t bound;
};

// Whether the rows formed by the columns, first column first, do not descend.
inline bool is_sorted(const std::vector<Column>& columns, int64_t n_rows) {
    for (int64_t i = 1; i < n_rows; ++i) {
        for (const auto& column : columns) {
            const uint32_t before = column.data[i - 1], here = column.data[i];
            if (here > before) break;
            if (here < before) return false;
        }
    }
    return true;
}

// The stable permutation that sorts the rows: counting sorts from the last column to the first,
// in digits of 16 bits so that the counts stay in cache however large a mode is.
inline void sort_rows(const std::vector<Column>& columns, int64_t n_rows, int64_t* permutation) {
    constexpr int digit_bits = 16;
    std::iota(permutation, permutation + n_rows, int64_t(0));
    std::vector<int64_t> spare(static_cast<size_t>(n_rows));
    int64_t* from = permutation;
    int64_t* to = spare.data();
    for (size_t k = columns.size(); k-- > 0;) {
        const auto& column = columns[k];
        for (int shift = 0; shift < 32 && ((column.bound - 1) >> shift) > 0; shift += digit_bits) {
            const int64_t largest = (column.bound - 1) >> shift;
            const uint32_t mask = (uint32_t(1) << digit_bits) - 1;
            const size_t n_buckets = size_t(std::min<int64_t>(largest, mask)) + 1;
            std::vector<int64_t> next(n_buckets + 1);
            for (int64_t i = 0; i < n_rows; ++i) ++next[((column.data[i] >> shift) & mask) + 1];
            std::partial_sum(next.begin(), next.end(), next.begin());
            for (int64_t i = 0; i < n_rows; ++i) {
                const int64_t row = from[i];
                to[next[(column.data[row] >> shift) & mask]++] = row;
            }
            std::swap(from, to);
        }
    }
    if (from != permutation) std::copy(from, from + n_rows, permutation);
}

}  // namespace tensormend
