// Bring entries into the order of a tree of fibres.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "parallel.hpp"

namespace tensormend {

constexpr int64_t block_rows = 16384;

inline int64_t count_blocks(int64_t n_rows) {
    return (n_rows + block_rows - 1) / block_rows;
}

// Call body(block, first row, end) for all blocks of rows, on several threads.
template <class Body>
void for_blocks(int64_t n_rows, int64_t threads, const Body& body) {
    run_tasks(count_blocks(n_rows), threads,
              [&](int64_t b) { body(b, b * block_rows, std::min(n_rows, (b + 1) * block_rows)); });
}

// Write the columns of an m x d array of coordinates one by one. Returns the first row with a
// coordinate that is negative or not below its bound, or -1; what is written then means nothing.
template <class Index>
int64_t split_rows(const Index* rows, int64_t n_rows, const std::vector<int64_t>& bounds,
                   const std::vector<uint32_t*>& columns, int64_t threads) {
    const size_t d = bounds.size();
    std::vector<int64_t> bad(size_t(count_blocks(n_rows)), -1);
    for_blocks(n_rows, threads, [&](int64_t b, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const Index* const row = rows + i * int64_t(d);
            bool is_bad = false;
            for (size_t k = 0; k < d; ++k) {
                is_bad |=
                    uint64_t(int64_t(row[k])) >= uint64_t(bounds[k]);  // negative ones wrap around
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
inline bool is_sorted(const std::vector<Column>& columns, int64_t n_rows, int64_t threads) {
    std::atomic<bool> sorted{true};
    for_blocks(n_rows, threads, [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t i = std::max<int64_t>(begin, 1); i < end; ++i) {
            for (const auto& column : columns) {
                const uint32_t before = column.data[i - 1], here = column.data[i];
                if (here > before) break;
                if (here < before) {
                    sorted = false;
                    return;
                }
            }
        }
    });
    return sorted;
}

// The nodes of a tree over sorted rows: per column but the last, the rows that open a new prefix,
// and the coordinates there, where whoever looks for the nodes has them at hand.
struct Nodes {
    std::vector<std::vector<int64_t>> opens;
    std::vector<std::vector<uint32_t>> coordinates;
    int64_t n_repeated = 0;
    int64_t first_repeated = -1;  // a row equal to the one before it
};

template <class Number>
void append(std::vector<std::vector<Number>>& all, const std::vector<std::vector<Number>>& more) {
    if (all.size() < more.size()) all.resize(more.size());
    for (size_t l = 0; l < more.size(); ++l)
        all[l].insert(all[l].end(), more[l].begin(), more[l].end());
}

inline Nodes join_nodes(std::vector<Nodes>& parts, size_t n_levels) {
    Nodes all;
    all.opens.resize(n_levels);
    for (auto& nodes : parts) {
        append(all.opens, nodes.opens);
        append(all.coordinates, nodes.coordinates);
        if (all.n_repeated == 0) all.first_repeated = nodes.first_repeated;
        all.n_repeated += nodes.n_repeated;
        nodes = {};
    }
    return all;
}

inline Nodes find_nodes(const std::vector<Column>& columns, int64_t n_rows, int64_t threads) {
    const size_t n_levels = columns.size() - 1;
    const size_t n_blocks = size_t(count_blocks(n_rows));
    std::vector<Nodes> found(n_blocks);
    for_blocks(n_rows, threads, [&](int64_t b, int64_t begin, int64_t end) {
        Nodes& nodes = found[size_t(b)];
        nodes.opens.resize(n_levels);
        for (int64_t i = begin; i < end; ++i) {
            size_t k = 0;  // the first column that differs from the row before
            if (i > 0)
                while (k <= n_levels && columns[k].data[i] == columns[k].data[i - 1]) ++k;
            for (size_t l = k; l < n_levels; ++l) nodes.opens[l].push_back(i);
            if (k > n_levels) {
                if (nodes.n_repeated++ == 0) nodes.first_repeated = i;
            }
        }
    });
    return join_nodes(found, n_levels);
}

// Read on from row `i` while the rows lie in its fibre, and stop at the first that does not.
// Whether their last column, which is written to the leaves, ascends and stays below its bound. D
// is the number of columns, known to the compiler, or 0.
template <size_t D, class Index>
bool read_fibre(const Index* rows, const std::vector<size_t>& order, int64_t bound, int64_t end,
                uint32_t* leaves, int64_t& i) {
    const size_t d = D > 0 ? D : order.size();
    const Index* const first = rows + i * int64_t(d);
    Index last = first[order[d - 1]];
    bool ascends = true;
    for (++i; i < end; ++i) {
        const Index* const here = rows + i * int64_t(d);
        bool is_same = true;
        for (size_t k = 0; k + 1 < d; ++k) is_same &= here[order[k]] == first[order[k]];
        if (!is_same) break;
        const Index leaf = here[order[d - 1]];
        ascends &= leaf > last;
        last = leaf;
        leaves[i] = uint32_t(leaf);
    }
    return ascends && int64_t(last) < bound;
}

// The tree of rows that are sorted already by their columns in a given order, without copies of the
// columns: its nodes, and the last column in that order. False if a row is out of bounds or not
// above the one before; what is written then means nothing.
template <class Index>
bool read_tree(const Index* rows, int64_t n_rows, const std::vector<int64_t>& bounds,
               const std::vector<size_t>& order, uint32_t* leaves, int64_t threads, Nodes& tree) {
    const size_t d = order.size();
    const auto read_on = d == 2   ? read_fibre<2, Index>
                         : d == 3 ? read_fibre<3, Index>
                         : d == 4 ? read_fibre<4, Index>
                                  : read_fibre<0, Index>;
    std::atomic<bool> is_tree{true};
    std::vector<Nodes> found(size_t(count_blocks(n_rows)));
    for_blocks(n_rows, threads, [&](int64_t b, int64_t begin, int64_t end) {
        auto& opens = found[size_t(b)].opens;
        auto& coordinates = found[size_t(b)].coordinates;
        opens.resize(d - 1);
        coordinates.resize(d - 1);
        bool is_good = is_tree;
        for (int64_t i = begin; i < end && is_good;) {
            const Index* const here = rows + i * int64_t(d);
            size_t k = 0;  // the first column that differs from the row before
            if (i > 0) {
                const Index* const before = here - int64_t(d);
                while (k < d && here[order[k]] == before[order[k]]) ++k;
                is_good = k < d && here[order[k]] > before[order[k]];
            }
            for (size_t l = k; l < d; ++l)  // negative ones wrap around
                is_good &= uint64_t(int64_t(here[order[l]])) < uint64_t(bounds[order[l]]);
            for (size_t l = k; l + 1 < d; ++l) {
                opens[l].push_back(i);
                coordinates[l].push_back(uint32_t(here[order[l]]));
            }
            leaves[i] = uint32_t(here[order[d - 1]]);
            is_good &= read_on(rows, order, bounds[order[d - 1]], end, leaves, i);
        }
        if (!is_good) is_tree = false;
    });
    if (is_tree) {
        tree = join_nodes(found, d - 1);
        tree.coordinates.resize(d - 1);  // where there are no rows there were no parts to join
    }
    return is_tree;
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
