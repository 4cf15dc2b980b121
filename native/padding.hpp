// Matrices whose rows are filled up with zeros to a length that the loops like, or moved to where
// their vectors lie within cache lines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dispatch.hpp"
#include "parallel.hpp"

namespace tensormend {

// Whether copying rows costs less than what it gains at the entries. Beside loops for any length it
// gains much for short rows; little for long ones, and for those with loops of their own already.
template <class T>
bool pays_to_pad(int64_t rank, int64_t n_rows, int64_t n_entries) {
    return n_entries >= (is_odd<T>(rank) || rank > 32 ? 16 : 1) * n_rows;
}

// The loops for rows of a rank, and the length to fill them up to.
template <class T>
RowLoops<T> choose_loops(int64_t rank, const Usage& usage) {
    return pick_loops<T>(rank, usage, pays_to_pad<T>(rank, usage.n_rows, usage.n_entries));
}

// Whether rows are worth a copy because their vectors lie across cache lines: NumPy's arrays begin
// at any multiple of 16 bytes. Rows that are not whole vectors would do so anywhere.
template <class T>
bool pays_to_align(const T* data, int64_t rank, const Usage& usage, int64_t vector) {
    return rank * int64_t(sizeof(T)) % vector == 0 && usage.per_row() >= many_per_row &&
           int64_t(reinterpret_cast<uintptr_t>(data)) % vector != 0;
}

// So many blocks of n_rows x width numbers.
struct Blocks {
    int64_t n_blocks, n_rows, width;
    int64_t size() const { return n_blocks * n_rows * width; }
};

// Copy what blocks of two sizes, of the same number, have in common.
template <class T>
void copy_blocks(const T* from, const Blocks& a, T* to, const Blocks& b) {
    const int64_t n_rows = std::min(a.n_rows, b.n_rows), width = std::min(a.width, b.width);
    for (int64_t block = 0; block < a.n_blocks; ++block)
        for (int64_t row = 0; row < n_rows; ++row)
            std::copy_n(from + (block * a.n_rows + row) * a.width, width,
                        to + (block * b.n_rows + row) * b.width);
}

// A matrix as the loops take it, with rows of `length`, and where they sum matrices of its shape.
template <class T>
class PaddedRows {
public:
    PaddedRows(const T* data, int64_t rank, const Usage& usage)
        : PaddedRows(data, rank, usage, choose_loops<T>(rank, usage)) {}

    const T* data() const { return data_; }
    int64_t rank() const { return tight_.width; }
    int64_t size() const { return padded_.size(); }

    // Zeroed buffer for sums, or `sums` itself, which is zero before, if the rows are not padded.
    T* padded_sums(T* sums) {
        return is_copied_ ? buffers_.emplace_back(padded_.size()).data() : sums;
    }

    // Copy the sums from the padded rows.
    void copy_sums(const T* padded, T* sums) const {
        if (padded != sums) copy_blocks(padded, padded_, sums, tight_);
    }

    const int64_t length;
    const Loops<T> loops;

private:
    PaddedRows(const T* data, int64_t rank, const Usage& usage, const RowLoops<T>& chosen)
        : length(chosen.length),
          loops(chosen.loops),
          data_(data),
          tight_{1, usage.n_rows, rank},
          padded_{1, usage.n_rows, length},
          is_copied_(length != rank || pays_to_align(data, rank, usage, chosen.vector)) {
        if (!is_copied_) return;
        T* const rows = buffers_.emplace_back(padded_.size()).data();
        copy_blocks(data, tight_, rows, padded_);
        data_ = rows;
    }

    const T* data_;
    Blocks tight_, padded_;
    bool is_copied_;
    std::vector<Buffer<T>> buffers_;
};

}  // namespace tensormend
