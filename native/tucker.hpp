// Tucker kernels: one walk over the tree of fibres, contracting the core on the way down and
// gathering the gradient on the way up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "loops.hpp"
#include "parallel.hpp"
#include "values.hpp"

namespace tensormend {

struct Level {
    const uint32_t* nodes;
    const int64_t* starts;  // n_nodes + 1
    int64_t n_nodes;
};

// Where the entries are: a tree over the other modes, lead-mode coordinates at the leaves.
template <class I>
struct Tree {
    std::vector<Level> levels;
    const I* leaves;

    const Level& fibres() const { return levels.back(); }
};

template <class T>
struct Factor {
    const T* data;
    int64_t n_rows, rank;
    int64_t size() const { return n_rows * rank; }
};

// Core and factors in tree order, lead mode last: one more factor than levels.
template <class T>
struct TuckerTensor {
    const T* core;
    std::vector<Factor<T>> factors;

    int64_t core_size() const {
        int64_t size = 1;
        for (const auto& factor : factors) size *= factor.rank;
        return size;
    }

    // The size of the block that is left below a level.
    int64_t rest(size_t level) const {
        int64_t size = 1;
        for (size_t k = level + 1; k < factors.size(); ++k) size *= factors[k].rank;
        return size;
    }
};

// Per level the nodes above the entries of a chunk; at either end it may hold only some of a
// node's children, which does no harm because all sums are linear in the entries.
struct Span {
    std::vector<int64_t> begin, end;
    Chunk chunk;

    Span(const std::vector<Level>& levels, const Chunk& chunk)
        : begin(levels.size()), end(levels.size()), chunk(chunk) {
        int64_t first = chunk.first_fibre, last = chunk.end_fibre - 1;
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

// What a walk does at the entries.
enum class Task {
    values,    // values of x, written out or, without a place for them, their squared norm
    residual,  // y less the values of x, pulled back through x
    data,      // y, pulled back through x
    normal,    // values of a tangent vector, of twice the rank, pulled back through x
};

template <class T, class I>
struct Job {
    Task task;
    Tree<I> tree;
    TuckerTensor<T> x, wide;  // wide: for Task::normal
    Values<T> y;              // for Task::residual and Task::data
    T* out = nullptr;         // values or residual
};

// One chunk's walk.
template <class T, class I>
class Walk {
public:
    Walk(const Job<T, I>& job, const Span& span, const Sums<T>& sums)
        : job_(job), span_(span), sums_(sums), y_(job.y) {
        const size_t n_levels = job.tree.levels.size();
        for (size_t l = 0; l < n_levels; ++l) {
            const int64_t rest = job.x.rest(l);
            rests_.push_back(rest);
            loops_.push_back(pick_loops<T, I>(rest));
            blocks_.emplace_back(rest);
            gathered_.emplace_back(rest);
            if (job.task == Task::normal && l + 1 < n_levels) {
                wide_rests_.push_back(job.wide.rest(l));
                wide_loops_.push_back(pick_loops<T, I>(wide_rests_.back()));
                wide_blocks_.emplace_back(wide_rests_.back());
            }
        }
        spare_.emplace_back(4 * group_size * job.x.factors.back().rank);
    }

    double run() {
        visit(0, span_.begin[0], span_.end[0], job_.x.core, job_.wide.core, sums_.core);
        return square_;
    }

private:
    // `block` is the core contracted with the factor rows above this level, `wide` that of the
    // wide tensor; `up` gathers the gradient with respect to the block.
    void visit(size_t l, int64_t begin, int64_t end, const T* block, const T* wide, T* up) {
        if (l + 1 == job_.tree.levels.size()) {
            visit_fibres(l, begin, end, block, wide, up);
            return;
        }
        const Level& level = job_.tree.levels[l];
        const Factor<T>& factor = job_.x.factors[l];
        T* const below = blocks_[l].data();
        T* const acc = gathered_[l].data();
        T* wide_below = nullptr;
        for (int64_t n = begin; n < end; ++n) {
            const int64_t row = level.nodes[n];
            const T* const u = factor.data + row * factor.rank;
            loops_[l].contract(factor.rank, rests_[l], u, block, below);
            if (job_.task == Task::normal) {
                const Factor<T>& wide_factor = job_.wide.factors[l];
                wide_below = wide_blocks_[l].data();
                wide_loops_[l].contract(wide_factor.rank, wide_rests_[l],
                                        wide_factor.data + row * wide_factor.rank, wide,
                                        wide_below);
            }
            if (up) std::fill_n(acc, rests_[l], T{});
            visit(l + 1, std::max(level.starts[n], span_.begin[l + 1]),
                  std::min(level.starts[n + 1], span_.end[l + 1]), below, wide_below,
                  up ? acc : nullptr);
            if (up) {
                loops_[l].fold(factor.rank, rests_[l], u, block, acc,
                               factor_sums(l) + row * factor.rank, up);
            }
        }
    }

    void visit_fibres(size_t l, int64_t begin, int64_t end, const T* block, const T* wide,
                      T* up) {
        const Level& level = job_.tree.levels[l];
        int64_t first = std::max(level.starts[begin], span_.chunk.first);
        const int64_t last = std::min(level.starts[end], span_.chunk.last);
        while (first < last) {  // values that need converting come in pieces
            const int64_t stop = y_.piece_end(first, last);
            int64_t after = end;
            if (stop < last) {
                after = std::lower_bound(level.starts + begin, level.starts + end, stop) -
                        level.starts;
            }
            visit_run({level.nodes, level.starts, begin, after, first, stop,
                       job_.tree.leaves + first},
                      l, block, wide, up);
            begin = level.starts[after] > stop ? after - 1 : after;
            first = stop;
        }
    }

    void visit_run(const Run<I>& run, size_t l, const T* block, const T* wide, T* up) {
        const auto& loops = loops_.back();
        T* const spare = spare_[0].data();
        T* const out = job_.out ? job_.out + run.first : nullptr;
        const Branch<T> x = branch(job_.x, l, block);
        if (job_.task == Task::values) {
            square_ += loops.values(run, x, out, spare);
            return;
        }
        const Gradient<T> sums{up, factor_sums(l), sums_.factors.back()};
        if (job_.task == Task::normal) {
            square_ += loops.normal(run, branch(job_.wide, l, wide), x, sums, spare);
        } else {
            const T* const y = y_.read(run.first, run.last);
            square_ += loops.pullback(run, x, y, job_.task == Task::residual, sums, out, spare);
        }
    }

    static Branch<T> branch(const TuckerTensor<T>& x, size_t l, const T* block) {
        return {block, x.factors[l].data, x.factors.back().data, x.factors[l].rank,
                x.factors.back().rank};
    }

    T* factor_sums(size_t l) const {
        return sums_.factors[l] - (l == 0 ? sums_.first_row * job_.x.factors[0].rank : 0);
    }

    const Job<T, I>& job_;
    const Span& span_;
    const Sums<T>& sums_;
    ValueReader<T> y_;
    std::vector<int64_t> rests_, wide_rests_;
    std::vector<Loops<T, I>> loops_, wide_loops_;
    std::vector<Buffer<T>> blocks_, gathered_, wide_blocks_, spare_;
    double square_ = 0;
};

// Values written to job.out, or their squared norm.
template <class T, class I>
double tucker_values(const Job<T, I>& job, int64_t threads) {
    const Level& fibres = job.tree.fibres();
    const auto chunks = cut_chunks(fibres.starts, fibres.n_nodes, 0, sizeof(T));
    std::vector<double> squares(chunks.size());
    run_tasks(int64_t(chunks.size()), threads, [&](int64_t c) {
        const Span span(job.tree.levels, chunks[size_t(c)]);
        const Sums<T> none;
        squares[size_t(c)] = Walk<T, I>(job, span, none).run();
    });
    double square = 0;
    for (const double part : squares) square += part;
    return square;
}

// The sums come zeroed. Returns the squared norm of what was pulled back.
template <class T, class I>
double tucker_pullback(const Job<T, I>& job, const Sums<T>& sums, int64_t threads) {
    const auto& factors = job.x.factors;
    int64_t n_partial = job.x.core_size();
    for (size_t k = 1; k < factors.size(); ++k) n_partial += factors[k].size();
    const Level& fibres = job.tree.fibres();
    const auto chunks = cut_chunks(fibres.starts, fibres.n_nodes, n_partial, sizeof(T));

    // The first chunk sums straight into the outputs, the others into buffers of their own, of
    // which the root factor's holds only the few rows that its chunk touches.
    std::vector<Span> spans;
    std::vector<Sums<T>> sums_of;
    std::vector<Buffer<T>> buffers;
    std::vector<Part<T>> core_parts;
    std::vector<std::vector<Part<T>>> factor_parts(factors.size());
    const auto add_part = [&](std::vector<Part<T>>& parts, int64_t offset, int64_t size) {
        buffers.emplace_back(size);
        parts.push_back({offset, size, buffers.back().data()});
        return buffers.back().data();
    };
    for (const Chunk& chunk : chunks) {
        const Span& span = spans.emplace_back(job.tree.levels, chunk);
        if (spans.size() == 1) {
            sums_of.push_back(sums);
            continue;
        }
        const uint32_t* const nodes = job.tree.levels[0].nodes;
        const auto range = std::minmax_element(nodes + span.begin[0], nodes + span.end[0]);
        Sums<T> own;
        own.first_row = *range.first;
        own.core = add_part(core_parts, 0, job.x.core_size());
        for (size_t k = 0; k < factors.size(); ++k) {
            const int64_t rank = factors[k].rank;
            const int64_t first = k == 0 ? own.first_row : 0;
            const int64_t end = k == 0 ? int64_t(*range.second) + 1 : factors[k].n_rows;
            own.factors.push_back(add_part(factor_parts[k], first * rank, (end - first) * rank));
        }
        sums_of.push_back(own);
    }
    std::vector<double> squares(chunks.size());

    run_tasks(int64_t(chunks.size()), threads, [&](int64_t c) {
        squares[size_t(c)] = Walk<T, I>(job, spans[size_t(c)], sums_of[size_t(c)]).run();
    });

    add_parts(sums.core, job.x.core_size(), core_parts, threads);
    for (size_t k = 0; k < factors.size(); ++k)
        add_parts(sums.factors[k], factors[k].size(), factor_parts[k], threads);
    double square = 0;
    for (const double part : squares) square += part;
    return square;
}

}  // namespace tensormend
