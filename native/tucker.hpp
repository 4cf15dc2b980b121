// Tucker kernels: one walk over the tree of fibres, contracting the core on the way down and
// gathering the gradient on the way up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dispatch.hpp"
#include "loops.hpp"
#include "padding.hpp"
#include "parallel.hpp"
#include "values.hpp"

namespace tensormend {

struct Level {
    const uint32_t* nodes;
    const int64_t* starts;  // n_nodes + 1
    int64_t n_nodes;
};

// Where the entries are: a tree over the other modes, leaf-mode coordinates at the leaves.
struct Tree {
    std::vector<Level> levels;
    Leaves leaves;

    const Level& fibres() const { return levels.back(); }
    int64_t n_entries() const { return fibres().starts[fibres().n_nodes]; }
};

template <class T>
struct Factor {
    const T* data;
    int64_t n_rows, rank;
    int64_t size() const { return n_rows * rank; }
};

// Core and factors in tree order, leaf mode last: one more factor than levels.
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
    values,    // values of x if they are written out, else only their squared norm
    tangent,   // the squared norm of the values of a tangent vector to x
    residual,  // gradient for y minus the values of x
    data,      // gradient for y
    normal,    // gradient for the values of a tangent vector to x
};

template <class T>
struct Job {
    Task task;
    Tree tree;
    TuckerTensor<T> x;
    // The tangent vector: the derivative of x as core and factors move by these. The rows of its
    // last factor follow those of x in `leaf_rows`.
    TuckerTensor<T> step = {};
    const T* leaf_rows = nullptr;
    Values<T> y = {};     // for Task::residual and Task::data
    T* out = nullptr;     // values or residual
    Loops<T> loops = {};  // for the rows of the leaf factor, once they are prepared
};

// One chunk's walk.
template <class T>
class Walk {
public:
    Walk(const Job<T>& job, const Span& span, const Sums<T>& sums)
        : job_(job),
          span_(span),
          sums_(sums),
          entries_(job.tree.leaves, job.y, job.tree.n_entries()) {
        const size_t n_levels = job.tree.levels.size();
        for (size_t l = 0; l < n_levels; ++l) {
            const int64_t rest = job.x.rest(l);
            rests_.push_back(rest);
            if (l + 1 == n_levels) break;  // fibres use the spare rows
            blocks_.emplace_back(group_size * rest);
            if (sums.core) gathered_.emplace_back(group_size * rest);
            if (job.step.core) step_blocks_.emplace_back(group_size * rest);
        }
        spare_.emplace_back(4 * group_size * job.x.factors.back().rank);
    }

    double run() {
        visit(0, span_.begin[0], span_.end[0], job_.x.core, job_.step.core, sums_.core);
        return square_;
    }

private:
    // `block` is the core contracted with the factor rows above this level, `step` its derivative
    // along the tangent vector; `up` gathers the gradient with respect to the block.
    void visit(size_t l, int64_t begin, int64_t end, const T* block, const T* step, T* up) {
        if (l + 1 == job_.tree.levels.size()) {
            visit_fibres(l, begin, end, block, step, up);
            return;
        }
        const Level& level = job_.tree.levels[l];
        const int64_t rank = job_.x.factors[l].rank, rest = rests_[l];
        for (; begin < end; begin += group_size) {
            const int64_t count = std::min<int64_t>(group_size, end - begin);
            const T *u[group_size], *moves[group_size] = {};
            T *below[group_size], *step_below[group_size] = {};
            T *acc[group_size] = {}, *grad[group_size] = {};
            for (int64_t k = 0; k < count; ++k) {
                const int64_t row = int64_t(level.nodes[begin + k]) * rank;
                u[k] = job_.x.factors[l].data + row;
                below[k] = blocks_[l].data() + k * rest;
                if (up) {
                    acc[k] = gathered_[l].data() + k * rest;
                    grad[k] = factor_sums(l) + row;
                }
                if (step) {
                    moves[k] = job_.step.factors[l].data + row;
                    step_below[k] = step_blocks_[l].data() + k * rest;
                }
            }
            node_loops_.contract(count, rank, rest, u, block, below, false);
            if (step) {
                node_loops_.contract(count, rank, rest, u, step, step_below, false);
                node_loops_.contract(count, rank, rest, moves, block, step_below, true);
            }
            if (up) std::fill_n(acc[0], count * rest, T{});
            for (int64_t k = 0; k < count; ++k) {
                visit(l + 1, std::max(level.starts[begin + k], span_.begin[l + 1]),
                      std::min(level.starts[begin + k + 1], span_.end[l + 1]), below[k],
                      step_below[k], acc[k]);
            }
            if (up) node_loops_.fold(count, rank, rest, u, block, acc, grad, up);
        }
    }

    void visit_fibres(size_t l, int64_t begin, int64_t end, const T* block, const T* step, T* up) {
        const Level& level = job_.tree.levels[l];
        int64_t first = std::max(level.starts[begin], span_.chunk.first);
        const int64_t last = std::min(level.starts[end], span_.chunk.last);
        while (first < last) {  // what needs converting comes in pieces
            const int64_t stop = entries_.piece_end(first, last);
            int64_t after = end;
            if (stop < last) {
                after =
                    std::lower_bound(level.starts + begin, level.starts + end, stop) - level.starts;
            }
            visit_run({level.nodes, level.starts, begin, after, first, stop,
                       entries_.leaves(first, stop)},
                      l, block, step, up);
            begin = level.starts[after] > stop ? after - 1 : after;
            first = stop;
        }
    }

    void visit_run(const Run& run, size_t l, const T* block, const T* step, T* up) {
        T* const spare = spare_[0].data();
        T* const out = job_.out ? job_.out + run.first : nullptr;
        const int64_t n_rows = job_.x.factors[l].rank, rank = job_.x.factors.back().rank;
        const Branch<T> x{block, job_.x.factors[l].data, job_.x.factors.back().data, n_rows, rank};
        if (job_.task == Task::values) {
            square_ += job_.loops.values(run, x, out, spare);
            return;
        }
        Branch<T> moved{};
        if (step) moved = {step, job_.step.factors[l].data, job_.leaf_rows, n_rows, rank};
        if (job_.task == Task::tangent) {
            square_ += job_.loops.tangent(run, x, moved, spare);
            return;
        }
        const Gradient<T> sums{up, factor_sums(l), sums_.factors.back()};
        if (job_.task == Task::normal) {
            square_ += job_.loops.normal(run, x, moved, sums, spare);
        } else {
            const T* const y = entries_.values(run.first, run.last);
            square_ +=
                job_.loops.gradient(run, x, y, job_.task == Task::residual, sums, out, spare);
        }
    }

    T* factor_sums(size_t l) const {
        return sums_.factors[l] - (l == 0 ? sums_.first_row * job_.x.factors[0].rank : 0);
    }

    const Job<T>& job_;
    const Span& span_;
    const Sums<T>& sums_;
    EntryReader<T> entries_;
    std::vector<int64_t> rests_;
    const NodeLoops<T> node_loops_ = pick_node_loops<T>();
    std::vector<Buffer<T>> blocks_, step_blocks_, gathered_, spare_;
    double square_ = 0;
};

template <class T>
double walk_values(const Job<T>& job, int64_t threads) {
    const Level& fibres = job.tree.fibres();
    const auto chunks = cut_chunks(fibres.starts, fibres.n_nodes, 0, sizeof(T));
    std::vector<double> squares(chunks.size());
    run_tasks(int64_t(chunks.size()), threads, [&](int64_t c) {
        const Span span(job.tree.levels, chunks[size_t(c)]);
        const Sums<T> none;
        squares[size_t(c)] = Walk<T>(job, span, none).run();
    });
    double square = 0;
    for (const double part : squares) square += part;
    return square;
}

template <class T>
double walk_gradient(const Job<T>& job, const Sums<T>& sums, int64_t threads) {
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
        squares[size_t(c)] = Walk<T>(job, spans[size_t(c)], sums_of[size_t(c)]).run();
    });

    add_parts(sums.core, job.x.core_size(), core_parts, threads);
    for (size_t k = 0; k < factors.size(); ++k)
        add_parts(sums.factors[k], factors[k].size(), factor_parts[k], threads);
    double square = 0;
    for (const double part : squares) square += part;
    return square;
}

// How the core and the last two factors of a tensor lie, those at the fibres and at the entries.
template <class T>
struct Layout {
    Blocks core, next, leaf;

    explicit Layout(const TuckerTensor<T>& x) {
        const auto &last = x.factors.back(), &before = x.factors[x.factors.size() - 2];
        core = {x.core_size() / (before.rank * last.rank), before.rank, last.rank};
        next = {1, before.n_rows, before.rank};
        leaf = {1, last.n_rows, last.rank};
    }

    // The same with zeros that give the rows some length; a square block of the core stays square.
    Layout with_room(int64_t length) const {
        Layout out = *this;
        out.leaf.width = out.core.width = length;
        if (next.width == leaf.width) out.next.width = out.core.n_rows = out.leaf.width;
        return out;
    }
};

// A job in a layout with room where that pays, and with the leaf rows of a tangent vector.
template <class T>
class Prepared {
public:
    explicit Prepared(const Job<T>& given) : job(given), tight_(given.x), roomy_(tight_) {
        const int64_t rank = tight_.leaf.width;
        const bool is_square = tight_.next.width == rank;
        const bool has_sums = given.task != Task::values && given.task != Task::tangent;
        const Usage usage{std::max(tight_.leaf.n_rows, is_square ? tight_.next.n_rows : 0),
                          given.tree.n_entries(), given.tree.fibres().n_nodes, has_sums};
        const RowLoops<T> chosen = choose_loops<T>(rank, usage);
        job.loops = chosen.loops;
        if (chosen.length != rank) {
            roomy_ = tight_.with_room(chosen.length);
            job.x = with_room(given.x);
            if (given.step.core) job.step = with_room(given.step);
        } else if (!given.step.core) {
            Factor<T>& leaf = job.x.factors.back();
            is_aligned_ = pays_to_align(leaf.data, rank, usage, chosen.vector);
            if (is_aligned_) leaf.data = copy(leaf.data, tight_.leaf, tight_.leaf);
        }
        if (given.step.core) {  // side by side, because two streams of rows would be slower
            const Factor<T>&u = job.x.factors.back(), &v = job.step.factors.back();
            const Blocks one{u.n_rows, 1, u.rank}, two{u.n_rows, 2, u.rank};
            T* const rows = zeros(two.size());
            copy_blocks(u.data, one, rows, two);
            copy_blocks(v.data, one, rows + u.rank, two);
            job.leaf_rows = rows;
        }
    }

    // Whether sums have a layout of their own.
    bool has_room() const { return is_aligned_ || roomy_.leaf.width != tight_.leaf.width; }

    // Zeroed buffers for the sums, in the padded layout.
    Sums<T> padded_sums(const Sums<T>& sums) {
        Sums<T> out = sums;
        const size_t last = sums.factors.size() - 1;
        out.core = zeros(roomy_.core.size());
        if (widens_next()) out.factors[last - 1] = zeros(roomy_.next.size());
        out.factors[last] = zeros(roomy_.leaf.size());
        return out;
    }

    // Copy the sums from the padded layout.
    void copy_sums(const Sums<T>& padded, const Sums<T>& sums) const {
        const size_t last = sums.factors.size() - 1;
        copy_blocks(padded.core, roomy_.core, sums.core, tight_.core);
        if (widens_next())
            copy_blocks(padded.factors[last - 1], roomy_.next, sums.factors[last - 1], tight_.next);
        copy_blocks(padded.factors[last], roomy_.leaf, sums.factors[last], tight_.leaf);
    }

    Job<T> job;

private:
    bool widens_next() const { return roomy_.next.width != tight_.next.width; }

    T* zeros(int64_t size) { return buffers_.emplace_back(size).data(); }

    const T* copy(const T* from, const Blocks& tight, const Blocks& roomy) {
        T* const to = zeros(roomy.size());
        copy_blocks(from, tight, to, roomy);
        return to;
    }

    TuckerTensor<T> with_room(const TuckerTensor<T>& x) {
        TuckerTensor<T> out = x;
        const size_t last = x.factors.size() - 1;
        out.core = copy(x.core, tight_.core, roomy_.core);
        if (widens_next()) {
            out.factors[last - 1].data = copy(x.factors[last - 1].data, tight_.next, roomy_.next);
            out.factors[last - 1].rank = roomy_.next.width;
        }
        out.factors[last].data = copy(x.factors[last].data, tight_.leaf, roomy_.leaf);
        out.factors[last].rank = roomy_.leaf.width;
        return out;
    }

    Layout<T> tight_, roomy_;
    bool is_aligned_ = false;
    std::vector<Buffer<T>> buffers_;
};

// Values of x written to job.out, or their squared norm, or that of a tangent vector.
template <class T>
double tucker_values(const Job<T>& job, int64_t threads) {
    return walk_values(Prepared<T>(job).job, threads);
}

// Adds the negative gradient with respect to core and factors to `sums`, which are zero before.
// Returns the squared norm of the residual, data or values that it belongs to.
template <class T>
double tucker_gradient(const Job<T>& job, const Sums<T>& sums, int64_t threads) {
    Prepared<T> prepared(job);
    if (!prepared.has_room()) return walk_gradient(prepared.job, sums, threads);
    const Sums<T> padded = prepared.padded_sums(sums);
    const double square = walk_gradient(prepared.job, padded, threads);
    prepared.copy_sums(padded, sums);
    return square;
}

}  // namespace tensormend
