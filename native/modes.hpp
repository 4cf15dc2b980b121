// Single-mode kernels: the sampled tensor as a sparse matrix with one column per fibre.
#pragma once

#include <cstdint>
#include <vector>

#include "loops.hpp"
#include "parallel.hpp"

namespace tensormend {

// Fibre f holds entries starts[f] to starts[f + 1] and is column columns[f] of left @ right.T.
template <class T>
struct ModeProblem {
    const int64_t* columns;
    const int64_t* starts;
    const uint32_t* leaves;
    int64_t n_fibres;
    const T* left;   // n_lead x rank
    const T* right;  // columns x rank
    int64_t n_lead, rank;
};

template <class T>
void mode_values(const ModeProblem<T>& p, T* out, int64_t threads) {
    const auto cuts = cut_chunks(p.starts, p.n_fibres, 0, sizeof(T));
    const auto loops = pick_loops<T>(p.rank);
    run_tasks(int64_t(cuts.size()) - 1, threads, [&](int64_t c) {
        for (int64_t f = cuts[c]; f < cuts[c + 1]; ++f) {
            const int64_t first = p.starts[f];
            loops.evaluate(p.starts[f + 1] - first, p.rank, p.leaves + first, p.left,
                           p.right + p.columns[f] * p.rank, out + first);
        }
    });
}

// Sum over chunks of fibres into `along` (n_lead x rank, zeroed): body(first fibre, end, sums).
// The first chunk sums straight into the output, the others into buffers of their own.
template <class T, class Body>
void sum_along(const int64_t* starts, int64_t n_fibres, T* along, int64_t size, int64_t threads,
               const Body& body) {
    const auto cuts = cut_chunks(starts, n_fibres, size, sizeof(T));
    const int64_t n_chunks = int64_t(cuts.size()) - 1;
    std::vector<Buffer<T>> buffers;
    std::vector<Part<T>> parts;
    for (int64_t c = 1; c < n_chunks; ++c) {
        buffers.emplace_back(size);
        parts.push_back({0, size, buffers.back().data()});
    }
    run_tasks(n_chunks, threads, [&](int64_t c) {
        body(c, cuts[c], cuts[c + 1], c == 0 ? along : buffers[c - 1].data());
    });
    add_parts(along, size, parts, threads);
}

// `across` (columns x rank) and `along` (n_lead x rank) come zeroed. Returns the loss.
template <class T>
double mode_pass(const ModeProblem<T>& p, const T* y, const T* rows, T* across, T* along,
                 int64_t threads) {
    const auto loops = pick_loops<T>(p.rank);
    std::vector<double> losses(max_chunks);
    sum_along(p.starts, p.n_fibres, along, p.n_lead * p.rank, threads,
              [&](int64_t c, int64_t begin, int64_t end, T* sums) {
                  double loss = 0;
                  for (int64_t f = begin; f < end; ++f) {
                      const int64_t first = p.starts[f], row = p.columns[f] * p.rank;
                      loss += loops.pull(p.starts[f + 1] - first, p.rank, p.leaves + first,
                                         y + first, p.left, p.right + row, rows + row,
                                         across + row, sums, nullptr);
                  }
                  losses[c] = loss;
              });
    double loss = 0;
    for (const double part : losses) loss += part;
    return loss;
}

// out[f] = column f of G^T conj(q) for the matrix G (n_lead x n_fibres) of the entries y
template <class T>
void fibre_products(const int64_t* starts, int64_t n_fibres, const uint32_t* leaves, const T* y,
                    const T* q, int64_t rank, T* out, int64_t threads) {
    const auto cuts = cut_chunks(starts, n_fibres, 0, sizeof(T));
    const auto loops = pick_loops<T>(rank);
    run_tasks(int64_t(cuts.size()) - 1, threads, [&](int64_t c) {
        for (int64_t f = cuts[c]; f < cuts[c + 1]; ++f)
            loops.gather(starts[f + 1] - starts[f], rank, leaves + starts[f], y + starts[f], q,
                         out + f * rank);
    });
}

// out += G G^H q for the matrix G (n_lead x n_fibres) of the entries y; `out` comes zeroed.
template <class T>
void gram_pass(const int64_t* starts, int64_t n_fibres, const uint32_t* leaves, const T* y,
               const T* q, int64_t n_lead, int64_t rank, T* out, int64_t threads) {
    const auto loops = pick_loops<T>(rank);
    sum_along(starts, n_fibres, out, n_lead * rank, threads,
              [&](int64_t, int64_t begin, int64_t end, T* sums) {
                  const Buffer<T> row(rank);
                  for (int64_t f = begin; f < end; ++f) {
                      const int64_t first = starts[f], count = starts[f + 1] - first;
                      loops.gather(count, rank, leaves + first, y + first, q, row.data());
                      loops.scatter(count, rank, leaves + first, y + first, row.data(), sums);
                  }
              });
}

}  // namespace tensormend
