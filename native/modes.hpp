// Single-mode kernels: the sampled tensor as a sparse matrix with one column per fibre.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "loops.hpp"
#include "parallel.hpp"
#include "values.hpp"

namespace tensormend {

// Fibre f holds entries starts[f] to starts[f + 1] and is column columns[f] of a matrix.
template <class I>
struct FibreList {
    const int64_t* columns;
    const int64_t* starts;
    const I* leaves;
    int64_t n_fibres;
};

// Call body(fibre, first entry, number of entries) for the fibres of a chunk, in pieces where the
// values come in pieces.
template <class T, class I, class Body>
void for_pieces(const FibreList<I>& list, const Chunk& chunk, const ValueReader<T>& values,
                const Body& body) {
    for (int64_t f = chunk.first_fibre; f < chunk.end_fibre; ++f) {
        const int64_t last = std::min(list.starts[f + 1], chunk.last);
        for (int64_t first = std::max(list.starts[f], chunk.first); first < last;) {
            const int64_t stop = values.piece_end(first, last);
            body(f, first, stop - first);
            first = stop;
        }
    }
}

// Sums with one row per fibre: each is written by the one chunk that has all of the fibre, and
// the pieces of a fibre that lies in several chunks are added up afterwards, in order.
template <class T>
class FibreSums {
public:
    FibreSums(const std::vector<Chunk>& chunks, const int64_t* starts, int64_t rank)
        : rank_(rank) {
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
            if (cut_[c] >= 0)
                add_to(row_of(cut_[c]), spare_[0].data() + int64_t(c) * rank_, rank_);
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

// Rows of several panels side by side.
template <class T>
class RowsBeside {
public:
    explicit RowsBeside(const std::vector<Panel<T>>& panels) : panels_(panels) {
        for (const auto& panel : panels) width_ += panel.width;
    }

    int64_t width() const { return width_; }

    // A whole row, put together in `spare` where there are several panels.
    const T* row(int64_t i, T* spare) const {
        if (panels_.size() == 1) return panels_[0].data + i * width_;
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
// norm.
template <class T, class I>
double mode_values(const FibreList<I>& list, const T* left, const RowsBeside<T>& right, T* out,
                   int64_t threads) {
    const int64_t rank = right.width();
    const auto chunks = cut_chunks(list.starts, list.n_fibres, 0, sizeof(T));
    const auto loops = pick_loops<T, I>(rank);
    const ValueReader<T> whole{Values<T>{}};
    std::vector<double> squares(chunks.size());
    run_tasks(int64_t(chunks.size()), threads, [&](int64_t c) {
        const Buffer<T> spare(rank);
        double square = 0;
        for_pieces(list, chunks[size_t(c)], whole, [&](int64_t f, int64_t first, int64_t count) {
            square += loops.evaluate(count, rank, list.leaves + first, left,
                                     right.row(list.columns[f], spare.data()),
                                     out ? out + first : nullptr);
        });
        squares[size_t(c)] = square;
    });
    double square = 0;
    for (const double part : squares) square += part;
    return square;
}

// Sum over chunks into `along` (n_lead x rank, zeroed): body(chunk, its private sums). The first
// chunk sums straight into the output, the others into buffers of their own.
template <class T, class Body>
void sum_along(const std::vector<Chunk>& chunks, T* along, int64_t size, int64_t threads,
               const Body& body) {
    std::vector<Buffer<T>> buffers;
    std::vector<Part<T>> parts;
    for (size_t c = 1; c < chunks.size(); ++c) {
        buffers.emplace_back(size);
        parts.push_back({0, size, buffers.back().data()});
    }
    run_tasks(int64_t(chunks.size()), threads, [&](int64_t c) {
        body(c, c == 0 ? along : buffers[size_t(c) - 1].data());
    });
    add_parts(along, size, parts, threads);
}

// `across` (columns x rank) and `along` (n_lead x rank) come zeroed. Returns the squared norm of
// the residual.
template <class T, class I>
double mode_pass(const FibreList<I>& list, const Values<T>& y, const T* left, const T* right,
                 const T* rows, int64_t n_lead, int64_t rank, T* across, T* along,
                 int64_t threads) {
    const auto chunks = cut_chunks(list.starts, list.n_fibres, n_lead * rank, sizeof(T));
    const auto loops = pick_loops<T, I>(rank);
    const FibreSums<T> sums(chunks, list.starts, rank);
    std::vector<double> squares(chunks.size());
    sum_along(chunks, along, n_lead * rank, threads, [&](int64_t c, T* own) {
        const ValueReader<T> values(y);
        const Buffer<T> piece(rank);
        double square = 0;
        for_pieces(list, chunks[size_t(c)], values, [&](int64_t f, int64_t first, int64_t count) {
            const int64_t row = list.columns[f] * rank;
            const bool is_whole = count == list.starts[f + 1] - list.starts[f];
            square += loops.pull(count, rank, list.leaves + first,
                                 values.read(first, first + count), left, right + row, rows + row,
                                 is_whole ? across + row : piece.data(), own, nullptr);
            if (!is_whole) add_to(sums.row(c, f, across + row), piece.data(), rank);
        });
        squares[size_t(c)] = square;
    });
    sums.finish([&](int64_t f) { return across + list.columns[f] * rank; });
    double square = 0;
    for (const double part : squares) square += part;
    return square;
}

// Row columns[f] of `out` (zeroed) = column f of G^T conj(q), G being the matrix of the entries.
template <class T, class I>
void fibre_products(const FibreList<I>& list, const Values<T>& y, const T* q, int64_t rank,
                    T* out, int64_t threads) {
    const auto chunks = cut_chunks(list.starts, list.n_fibres, 0, sizeof(T));
    const auto loops = pick_loops<T, I>(rank);
    const FibreSums<T> sums(chunks, list.starts, rank);
    run_tasks(int64_t(chunks.size()), threads, [&](int64_t c) {
        const ValueReader<T> values(y);
        const Buffer<T> piece(rank);
        for_pieces(list, chunks[size_t(c)], values, [&](int64_t f, int64_t first, int64_t count) {
            T* const row = out + list.columns[f] * rank;
            const bool is_whole = count == list.starts[f + 1] - list.starts[f];
            loops.gather(count, rank, list.leaves + first, values.read(first, first + count), q,
                         is_whole ? row : piece.data());
            if (!is_whole) add_to(sums.row(c, f, row), piece.data(), rank);
        });
    });
    sums.finish([&](int64_t f) { return out + list.columns[f] * rank; });
}

// out += G G^H q for the matrix G (n_lead x n_fibres) of the entries; `out` comes zeroed.
template <class T, class I>
void gram_pass(const FibreList<I>& list, const Values<T>& y, const T* q, int64_t n_lead,
               int64_t rank, T* out, int64_t threads) {
    const auto chunks = cut_chunks(list.starts, list.n_fibres, n_lead * rank, sizeof(T));
    const auto loops = pick_loops<T, I>(rank);

    const auto gather = [&](const ValueReader<T>& values, const Chunk& fibre, T* piece, T* row) {
        std::fill_n(row, rank, T{});
        for_pieces(list, fibre, values, [&](int64_t, int64_t first, int64_t count) {
            loops.gather(count, rank, list.leaves + first, values.read(first, first + count), q,
                         piece);
            add_to(row, piece, rank);
        });
    };

    // G^H q of the fibres that lie in several chunks, first
    std::vector<int64_t> shared;
    for (const Chunk& chunk : chunks) {
        const int64_t f = chunk.first_fibre;
        const bool is_cut = list.starts[f] < chunk.first;
        if (is_cut && (shared.empty() || shared.back() != f)) shared.push_back(f);
    }
    const Buffer<T> products(int64_t(shared.size()) * rank);
    run_tasks(int64_t(shared.size()), threads, [&](int64_t i) {
        const int64_t f = shared[size_t(i)];
        const Buffer<T> piece(rank);
        gather(ValueReader<T>(y), {f, f + 1, list.starts[f], list.starts[f + 1]}, piece.data(),
               products.data() + i * rank);
    });

    sum_along(chunks, out, n_lead * rank, threads, [&](int64_t c, T* own) {
        const Chunk& chunk = chunks[size_t(c)];
        const ValueReader<T> values(y);
        const Buffer<T> row(rank), piece(rank);
        for (int64_t f = chunk.first_fibre; f < chunk.end_fibre; ++f) {
            const Chunk fibre{f, f + 1, std::max(chunk.first, list.starts[f]),
                              std::min(chunk.last, list.starts[f + 1])};
            const int64_t count = fibre.last - fibre.first;
            const T* known = row.data();
            if (count < list.starts[f + 1] - list.starts[f]) {
                const auto at = std::lower_bound(shared.begin(), shared.end(), f);
                known = products.data() + (at - shared.begin()) * rank;
            } else if (values.piece_end(fibre.first, fibre.last) == fibre.last) {
                const T* const all = values.read(fibre.first, fibre.last);
                loops.gather(count, rank, list.leaves + fibre.first, all, q, row.data());
                loops.scatter(count, rank, list.leaves + fibre.first, all, known, own);
                continue;
            } else {
                gather(values, fibre, piece.data(), row.data());
            }
            for_pieces(list, fibre, values, [&](int64_t, int64_t first, int64_t n) {
                loops.scatter(n, rank, list.leaves + first, values.read(first, first + n), known,
                              own);
            });
        }
    });
}

inline float squared_size(float value) { return value * value; }
inline double squared_size(double value) { return value * value; }
template <class Real>
Real squared_size(Complex<Real> value) {
    return value.re * value.re + value.im * value.im;
}

// energies[leaves] += |y|^2; `energies` (n_lead) comes zeroed
template <class T, class I, class Real>
void leaf_energies(const FibreList<I>& list, const Values<T>& y, int64_t n_lead, Real* energies,
                   int64_t threads) {
    const auto chunks = cut_chunks(list.starts, list.n_fibres, n_lead, sizeof(Real));
    sum_along(chunks, energies, n_lead, threads, [&](int64_t c, Real* own) {
        const Chunk& chunk = chunks[size_t(c)];
        const ValueReader<T> values(y);
        for (int64_t first = chunk.first; first < chunk.last;) {
            const int64_t stop = values.piece_end(first, chunk.last);
            const T* const piece = values.read(first, stop);
            for (int64_t e = first; e < stop; ++e)
                own[list.leaves[e]] += squared_size(piece[e - first]);
            first = stop;
        }
    });
}

}  // namespace tensormend
