// Single-mode kernels: the sampled tensor as a sparse matrix with one column per fibre.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "loops.hpp"
#include "padding.hpp"
#include "parallel.hpp"
#include "values.hpp"

namespace tensormend {

// Fibre f holds entries starts[f] to starts[f + 1] and is column columns[f] of a matrix.
struct FibreList {
    const int64_t* columns;
    const int64_t* starts;
    Leaves leaves;
    int64_t n_fibres;

    int64_t n_entries() const { return starts[n_fibres]; }

    Usage usage(int64_t n_rows, bool has_sums) const {
        return {n_rows, n_entries(), n_fibres, has_sums};
    }
};

// Call body(fibre, first entry, number of entries, leaves, values) for the fibres of a chunk, in
// pieces where the entries come in pieces.
template <class T, class Body>
void for_pieces(const FibreList& list, const Chunk& chunk, EntryReader<T>& entries,
                const Body& body) {
    if (!entries.converts()) {
        const uint32_t* const leaves = entries.leaves(0, 0);
        const T* const values = entries.values(0, 0);
        for (int64_t f = chunk.first_fibre; f < chunk.end_fibre; ++f) {
            const int64_t first = std::max(list.starts[f], chunk.first);
            const int64_t last = std::min(list.starts[f + 1], chunk.last);
            body(f, first, last - first, leaves + first, values ? values + first : nullptr);
        }
        return;
    }
    for (int64_t f = chunk.first_fibre; f < chunk.end_fibre; ++f) {
        const int64_t last = std::min(list.starts[f + 1], chunk.last);
        for (int64_t first = std::max(list.starts[f], chunk.first); first < last;) {
            const int64_t stop = entries.piece_end(first, last);
            body(f, first, stop - first, entries.leaves(first, stop), entries.values(first, stop));
            first = stop;
        }
    }
}

// Sums with one row per fibre: each is written by the one chunk that has all of the fibre, and
// the pieces of a fibre that lies in several chunks are added up afterwards, in order.
template <class T>
class FibreSums {
public:
    FibreSums(const std::vector<Chunk>& chunks, const int64_t* starts, int64_t rank) : rank_(rank) {
        for (const Chunk& chunk : chunks) {
            const bool is_cut = starts[chunk.first_fibre] < chunk.first;
            cut_.push_back(is_cut ? chunk.first_fibre : -1);
            if (is_cut) ++n_cut_;
        }
        if (n_cut_) spare_.emplace_back(int64_t(chunks.size()) * rank);
    }

    // Where chunk c adds up the row of a fibre that is `row` in the output.
    T* row(int64_t c, int64_t fibre, T* row) const {
        return fibre == cut_[size_t(c)] ? spare_[0].data() + c * rank_ : row;
    }

    // Add the pieces; row_of(fibre) is where they belong.
    template <class RowOf>
    void finish(const RowOf& row_of) const {
        if (!n_cut_) return;
        for (size_t c = 0; c < cut_.size(); ++c)
            if (cut_[c] >= 0) add_to(row_of(cut_[c]), spare_[0].data() + int64_t(c) * rank_, rank_);
    }

private:
    int64_t rank_;
    int64_t n_cut_ = 0;
    std::vector<int64_t> cut_;  // per chunk, its first fibre if that begins in another chunk
    std::vector<Buffer<T>> spare_;
};

template <class T>
struct Panel {
    const T* data;
    int64_t width;
};

// Rows of several panels side by side, filled up with zeros to some length.
template <class T>
class RowsBeside {
public:
    explicit RowsBeside(const std::vector<Panel<T>>& panels) : panels_(panels) {
        for (const auto& panel : panels) width_ += panel.width;
    }

    int64_t width() const { return width_; }

    // A whole row, put together in `spare` (zeroed, `length` long) where it is not there as such.
    const T* row(int64_t i, int64_t length, T* spare) const {
        if (panels_.size() == 1 && length == width_) return panels_[0].data + i * width_;
        T* to = spare;
        for (const auto& panel : panels_)
            to = std::copy_n(panel.data + i * panel.width, panel.width, to);
        return spare;
    }

private:
    std::vector<Panel<T>> panels_;
    int64_t width_ = 0;
};

// Values of left @ right.T at the entries, written to `out` or, where that is null, their squared
// norm. `left` has n_leaf_rows rows.
template <class T>
double mode_values(const FibreList& list, const T* left, int64_t n_leaf_rows,
                   const RowsBeside<T>& right, T* out, int64_t threads) {
    const PaddedRows<T> leaf(left, right.width(), list.usage(n_leaf_rows, false));
    const auto chunks = cut_chunks(list.starts, list.n_fibres, 0, sizeof(T));
    std::vector<double> squares(chunks.size());
    run_tasks(int64_t(chunks.size()), threads, [&](int64_t c) {
        EntryReader<T> entries(list.leaves, {}, list.n_entries());
        const Buffer<T> spare(leaf.length);
        double square = 0;
        const auto evaluate = [&](int64_t f, int64_t first, int64_t count, const uint32_t* leaves,
                                  const T*) {
            const T* const row = right.row(list.columns[f], leaf.length, spare.data());
            square += leaf.loops.evaluate(count, leaf.length, leaves, leaf.data(), row,
                                          out ? out + first : nullptr);
        };
        for_pieces(list, chunks[size_t(c)], entries, evaluate);
        squares[size_t(c)] = square;
    });
    double square = 0;
    for (const double part : squares) square += part;
    return square;
}

// Sum over chunks into `along` (zeroed): body(chunk, its private sums). The first chunk sums
// straight into the output, the others into buffers of their own.
template <class T, class Body>
void sum_along(const std::vector<Chunk>& chunks, T* along, int64_t size, int64_t threads,
               const Body& body) {
    std::vector<Buffer<T>> buffers;
    std::vector<Part<T>> parts;
    for (size_t c = 1; c < chunks.size(); ++c) {
        buffers.emplace_back(size);
        parts.push_back({0, size, buffers.back().data()});
    }
    run_tasks(int64_t(chunks.size()), threads,
              [&](int64_t c) { body(c, c == 0 ? along : buffers[size_t(c) - 1].data()); });
    add_parts(along, size, parts, threads);
}

// `right` and `rows` are n_columns x rank, `across` too and `along` n_leaf_rows x rank, both
// zeroed. Returns the squared norm of the residual.
template <class T>
double mode_pass(const FibreList& list, const Values<T>& y, const T* left, int64_t n_leaf_rows,
                 const T* right, const T* rows, int64_t n_columns, int64_t rank, T* across,
                 T* along, int64_t threads) {
    PaddedRows<T> leaf(left, rank, list.usage(n_leaf_rows, true));
    T* const padded = leaf.padded_sums(along);
    const auto chunks = cut_chunks(list.starts, list.n_fibres, n_leaf_rows * rank, sizeof(T));
    const FibreSums<T> sums(chunks, list.starts, rank);
    std::vector<double> squares(chunks.size());
    sum_along(chunks, padded, leaf.size(), threads, [&](int64_t c, T* own) {
        EntryReader<T> entries(list.leaves, y, list.n_entries());
        const Buffer<T> piece(leaf.length), right_spare(leaf.length), out_spare(leaf.length);
        const Loops<T> loops = leaf.loops;
        const T* const leaf_rows = leaf.data();
        const int64_t length = leaf.length, end = n_columns * rank - length;
        double square = 0;
        const auto add_piece = [&](int64_t f, int64_t, int64_t count, const uint32_t* leaves,
                                   const T* values) {
            const int64_t at = list.columns[f] * rank;
            // Rows of the panels are read beyond their end, into the next one: there the leaf rows
            // are zero. Only the last rows, which have no next one, are copied.
            const T *b = right + at, *v = rows + at;
            if (at > end) {
                b = std::copy_n(b, rank, right_spare.data()) - rank;
                v = std::copy_n(v, rank, out_spare.data()) - rank;
            }
            const bool fits = length == rank && count == list.starts[f + 1] - list.starts[f];
            square += loops.fibre_gradient(count, length, leaves, values, leaf_rows, b, v,
                                           fits ? across + at : piece.data(), own, nullptr);
            if (!fits) add_to(sums.row(c, f, across + at), piece.data(), rank);
        };
        for_pieces(list, chunks[size_t(c)], entries, add_piece);
        squares[size_t(c)] = square;
    });
    leaf.copy_sums(padded, along);
    sums.finish([&](int64_t f) { return across + list.columns[f] * rank; });
    double square = 0;
    for (const double part : squares) square += part;
    return square;
}

// Row columns[f] of `out` (zeroed) = column f of G^T conj(q), G being the matrix of the entries.
template <class T>
void fibre_products(const FibreList& list, const Values<T>& y, const T* q, int64_t n_leaf_rows,
                    int64_t rank, T* out, int64_t threads) {
    const PaddedRows<T> leaf(q, rank, list.usage(n_leaf_rows, false));
    const auto chunks = cut_chunks(list.starts, list.n_fibres, 0, sizeof(T));
    const FibreSums<T> sums(chunks, list.starts, rank);
    run_tasks(int64_t(chunks.size()), threads, [&](int64_t c) {
        EntryReader<T> entries(list.leaves, y, list.n_entries());
        const Buffer<T> piece(leaf.length);
        const auto gather = [&](int64_t f, int64_t, int64_t count, const uint32_t* leaves,
                                const T* values) {
            T* const row = out + list.columns[f] * rank;
            const bool fits = leaf.length == rank && count == list.starts[f + 1] - list.starts[f];
            leaf.loops.gather(count, leaf.length, leaves, values, leaf.data(),
                              fits ? row : piece.data());
            if (!fits) add_to(sums.row(c, f, row), piece.data(), rank);
        };
        for_pieces(list, chunks[size_t(c)], entries, gather);
    });
    sums.finish([&](int64_t f) { return out + list.columns[f] * rank; });
}

// out += G G^H q for the matrix G (n_leaf_rows x n_fibres) of the entries; `out` comes zeroed.
template <class T>
void gram_pass(const FibreList& list, const Values<T>& y, const T* q, int64_t n_leaf_rows,
               int64_t rank, T* out, int64_t threads) {
    PaddedRows<T> leaf(q, rank, list.usage(n_leaf_rows, true));
    const int64_t length = leaf.length;
    T* const padded = leaf.padded_sums(out);
    const auto chunks = cut_chunks(list.starts, list.n_fibres, n_leaf_rows * rank, sizeof(T));

    const auto gather = [&](EntryReader<T>& entries, const Chunk& fibre, T* piece, T* row) {
        std::fill_n(row, length, T{});
        const auto add = [&](int64_t, int64_t, int64_t count, const uint32_t* leaves,
                             const T* values) {
            leaf.loops.gather(count, length, leaves, values, leaf.data(), piece);
            add_to(row, piece, length);
        };
        for_pieces(list, fibre, entries, add);
    };

    // G^H q of the fibres that lie in several chunks, first
    std::vector<int64_t> shared;
    for (const Chunk& chunk : chunks) {
        const int64_t f = chunk.first_fibre;
        const bool is_cut = list.starts[f] < chunk.first;
        if (is_cut && (shared.empty() || shared.back() != f)) shared.push_back(f);
    }
    const Buffer<T> products(int64_t(shared.size()) * length);
    run_tasks(int64_t(shared.size()), threads, [&](int64_t i) {
        const int64_t f = shared[size_t(i)];
        const Buffer<T> piece(length);
        EntryReader<T> entries(list.leaves, y, list.n_entries());
        gather(entries, {f, f + 1, list.starts[f], list.starts[f + 1]}, piece.data(),
               products.data() + i * length);
    });

    sum_along(chunks, padded, leaf.size(), threads, [&](int64_t c, T* own) {
        const Chunk& chunk = chunks[size_t(c)];
        EntryReader<T> entries(list.leaves, y, list.n_entries());
        const Buffer<T> row(length), piece(length);
        for (int64_t f = chunk.first_fibre; f < chunk.end_fibre; ++f) {
            const Chunk fibre{f, f + 1, std::max(chunk.first, list.starts[f]),
                              std::min(chunk.last, list.starts[f + 1])};
            const int64_t count = fibre.last - fibre.first;
            const T* known = row.data();
            if (count < list.starts[f + 1] - list.starts[f]) {
                const auto at = std::lower_bound(shared.begin(), shared.end(), f);
                known = products.data() + (at - shared.begin()) * length;
            } else if (entries.piece_end(fibre.first, fibre.last) == fibre.last) {
                const uint32_t* const leaves = entries.leaves(fibre.first, fibre.last);
                const T* const values = entries.values(fibre.first, fibre.last);
                leaf.loops.gather(count, length, leaves, values, leaf.data(), row.data());
                leaf.loops.scatter(count, length, leaves, values, known, own);
                continue;
            } else {
                gather(entries, fibre, piece.data(), row.data());
            }
            const auto scatter = [&](int64_t, int64_t, int64_t n, const uint32_t* leaves,
                                     const T* values) {
                leaf.loops.scatter(n, length, leaves, values, known, own);
            };
            for_pieces(list, fibre, entries, scatter);
        }
    });
    leaf.copy_sums(padded, out);
}

inline float squared_size(float value) {
    return value * value;
}
inline double squared_size(double value) {
    return value * value;
}
template <class Real>
Real squared_size(Complex<Real> value) {
    return value.re * value.re + value.im * value.im;
}

// squares[leaves] += |y|^2; `squares` (n_leaf_rows) comes zeroed
template <class T, class Real>
void leaf_squared_norms(const FibreList& list, const Values<T>& y, int64_t n_leaf_rows,
                        Real* squares, int64_t threads) {
    const auto chunks = cut_chunks(list.starts, list.n_fibres, n_leaf_rows, sizeof(Real));
    sum_along(chunks, squares, n_leaf_rows, threads, [&](int64_t c, Real* own) {
        const Chunk& chunk = chunks[size_t(c)];
        EntryReader<T> entries(list.leaves, y, list.n_entries());
        for (int64_t first = chunk.first; first < chunk.last;) {
            const int64_t stop = entries.piece_end(first, chunk.last);
            const uint32_t* const leaves = entries.leaves(first, stop);
            const T* const values = entries.values(first, stop);
            for (int64_t e = 0; e < stop - first; ++e) own[leaves[e]] += squared_size(values[e]);
            first = stop;
        }
    });
}

}  // namespace tensormend
