// Tucker kernels: one walk over the tree of fibres, contracting the core on the way down and
// gathering the gradient on the way up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "loops.hpp"
#include "parallel.hpp"

namespace tensormend {

struct Level {
    const uint32_t* nodes;
    const int64_t* starts;  // n_nodes + 1
    int64_t n_nodes;
};

template <class T>
struct Factor {
    const T* data;
    int64_t n_rows, rank;
    int64_t size() const { return n_rows * rank; }
};

// Core and factors in tree order, lead mode last: one more factor than levels.
template <class T>
struct TuckerProblem {
    std::vector<Level> levels;
    const uint32_t* leaves;
    const T* core;
    std::vector<Factor<T>> factors;

    int64_t n_fibres() const { return levels.back().n_nodes; }
    int64_t core_size() const {
        int64_t size = 1;
        for (const auto& factor : factors) size *= factor.rank;
        return size;
    }
};

// Per level the nodes above a range of fibres; at either end it may hold only some of a node's
// children, which does no harm because all sums are linear in the entries.
struct Span {
    std::vector<int64_t> begin, end;

    Span(const std::vector<Level>& levels, int64_t first_fibre, int64_t end_fibre)
        : begin(levels.size()), end(levels.size()) {
        int64_t first = first_fibre, last = end_fibre - 1;
        for (size_t l = levels.size(); l-- > 0;) {
            begin[l] = first;
            end[l] = last + 1;
            if (l > 0) {
                first = parent(levels[l - 1], first);
                last = parent(levels[l - 1], last);
            }
        }
    }

private:
    static int64_t parent(const Level& level, int64_t child) {
        const int64_t* end = level.starts + level.n_nodes + 1;
        return std::upper_bound(level.starts, end, child) - level.starts - 1;
    }
};

// Where a walk adds up the gradient with respect to core and factors.
template <class T>
struct Sums {
    T* core = nullptr;
    std::vector<T*> factors;
    int64_t first_row = 0;  // of the root factor; the other factors are whole
};

// One chunk's walk. With `y` null it writes values to `out`; otherwise it adds to the sums, and
// writes the residual to `out` unless that is null. Without `subtract` the residual is y itself.
template <class T>
class TuckerWalk {
public:
    TuckerWalk(const TuckerProblem<T>& problem, const Span& span, const T* y, bool subtract,
               T* out, const Sums<T>& sums)
        : p_(problem), span_(span), y_(y), out_(out), sums_(sums) {
        if (!subtract) zero_row_.emplace_back(p_.factors.back().rank);
        const size_t n_levels = p_.levels.size();
        rests_.assign(n_levels, p_.factors.back().rank);
        for (size_t l = n_levels - 1; l-- > 0;) rests_[l] = rests_[l + 1] * p_.factors[l + 1].rank;
        for (const int64_t rest : rests_) {
            loops_.push_back(pick_loops<T>(rest));
            blocks_.emplace_back(rest);
            gathered_.emplace_back(rest);
        }
    }

    double run() {
        visit(0, span_.begin[0], span_.end[0], p_.core, sums_.core);
        return loss_;
    }

private:
    // `block` is the core contracted with the factor rows above this level; `up` gathers the
    // gradient with respect to it.
    void visit(size_t l, int64_t begin, int64_t end, const T* block, T* up) {
        const Level& level = p_.levels[l];
        const Factor<T>& factor = p_.factors[l];
        const int64_t rest = rests_[l];
        T* const below = blocks_[l].data();
        T* const acc = gathered_[l].data();
        const bool is_last = l + 1 == p_.levels.size();
        for (int64_t n = begin; n < end; ++n) {
            const int64_t row = level.nodes[n];
            const T* const u = factor.data + row * factor.rank;
            loops_[l].contract(factor.rank, rest, u, block, below);
            if (is_last) {
                visit_fibre(level.starts[n], level.starts[n + 1], below, acc);
            } else {
                if (y_) std::fill_n(acc, rest, T{});
                visit(l + 1, std::max(level.starts[n], span_.begin[l + 1]),
                      std::min(level.starts[n + 1], span_.end[l + 1]), below, acc);
            }
            if (y_) {
                const int64_t at = l == 0 ? row - sums_.first_row : row;
                loops_[l].fold(factor.rank, rest, u, block, acc,
                               sums_.factors[l] + at * factor.rank, up);
            }
        }
    }

    void visit_fibre(int64_t begin, int64_t end, const T* b, T* acc) {
        const Factor<T>& lead = p_.factors.back();
        const auto& loops = loops_.back();
        if (y_) {
            const T* const seen = zero_row_.empty() ? b : zero_row_[0].data();
            loss_ += loops.pull(end - begin, lead.rank, p_.leaves + begin, y_ + begin, lead.data,
                                seen, b, acc, sums_.factors.back(), out_ ? out_ + begin : nullptr);
        } else {
            loops.evaluate(end - begin, lead.rank, p_.leaves + begin, lead.data, b, out_ + begin);
        }
    }

    const TuckerProblem<T>& p_;
    const Span& span_;
    const T* y_;
    T* out_;
    const Sums<T>& sums_;
    std::vector<int64_t> rests_;  // per level, the size of the block below it
    std::vector<Loops<T>> loops_;
    std::vector<Buffer<T>> blocks_, gathered_, zero_row_;
    double loss_ = 0;
};

template <class T>
void tucker_values(const TuckerProblem<T>& p, T* out, int64_t threads) {
    const auto cuts = cut_chunks(p.levels.back().starts, p.n_fibres(), 0, sizeof(T));
    run_tasks(int64_t(cuts.size()) - 1, threads, [&](int64_t c) {
        const Span span(p.levels, cuts[c], cuts[c + 1]);
        const Sums<T> none;
        TuckerWalk<T>(p, span, nullptr, true, out, none).run();
    });
}

// The sums come zeroed; `residual` may be null. Returns the loss.
template <class T>
double tucker_pullback(const TuckerProblem<T>& p, const T* y, bool subtract, const Sums<T>& sums,
                       T* residual, int64_t threads) {
    const size_t n_factors = p.factors.size();
    int64_t n_partial = p.core_size();
    for (size_t k = 1; k < n_factors; ++k) n_partial += p.factors[k].size();
    const auto cuts = cut_chunks(p.levels.back().starts, p.n_fibres(), n_partial, sizeof(T));
    const int64_t n_chunks = int64_t(cuts.size()) - 1;

    // The first chunk sums straight into the outputs, the others into buffers of their own, of
    // which the root factor's holds only the few rows that its chunk touches.
    std::vector<Span> spans;
    std::vector<Sums<T>> sums_of;
    std::vector<Buffer<T>> buffers;
    std::vector<Part<T>> core_parts;
    std::vector<std::vector<Part<T>>> factor_parts(n_factors);
    const auto add_part = [&](std::vector<Part<T>>& parts, int64_t offset, int64_t size) {
        buffers.emplace_back(size);
        parts.push_back({offset, size, buffers.back().data()});
        return buffers.back().data();
    };
    for (int64_t c = 0; c < n_chunks; ++c) {
        spans.emplace_back(p.levels, cuts[c], cuts[c + 1]);
        if (c == 0) {
            sums_of.push_back(sums);
            continue;
        }
        const uint32_t* const nodes = p.levels[0].nodes;
        const auto range =
            std::minmax_element(nodes + spans[c].begin[0], nodes + spans[c].end[0]);
        Sums<T> own;
        own.first_row = *range.first;
        own.core = add_part(core_parts, 0, p.core_size());
        for (size_t k = 0; k < n_factors; ++k) {
            const int64_t rank = p.factors[k].rank;
            const int64_t first = k == 0 ? own.first_row : 0;
            const int64_t end = k == 0 ? int64_t(*range.second) + 1 : p.factors[k].n_rows;
            own.factors.push_back(add_part(factor_parts[k], first * rank, (end - first) * rank));
        }
        sums_of.push_back(own);
    }
    std::vector<double> losses(size_t(std::max<int64_t>(0, n_chunks)));

    run_tasks(n_chunks, threads, [&](int64_t c) {
        losses[c] = TuckerWalk<T>(p, spans[c], y, subtract, residual, sums_of[c]).run();
    });

    add_parts(sums.core, p.core_size(), core_parts, threads);
    for (size_t k = 0; k < n_factors; ++k)
        add_parts(sums.factors[k], p.factors[k].size(), factor_parts[k], threads);
    double loss = 0;
    for (const double part : losses) loss += part;
    return loss;
}

}  // namespace tensormend
