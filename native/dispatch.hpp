// Which of the compiled loops a machine runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "lengths.hpp"
#include "loops.hpp"

namespace tensormend {

// Instruction sets, the slowest first.
enum class Target { baseline, avx2, avx512 };

struct NamedTarget {
    const char* name;
    Target target;
};

// Those that were compiled and that this machine has.
inline std::vector<NamedTarget> list_targets() {
    std::vector<NamedTarget> targets{{"baseline", Target::baseline}};
#ifdef TENSORMEND_HAS_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        targets.push_back({"avx2", Target::avx2});
#endif
#ifdef TENSORMEND_HAS_AVX512
    if (targets.back().target == Target::avx2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
        targets.push_back({"avx512", Target::avx512});
#endif
    return targets;
}

// The one in use: the fastest, unless another is chosen.
inline std::atomic<Target>& current_target() {
    static std::atomic<Target> target{list_targets().back().target};
    return target;
}

template <class T, int... R>
int64_t next_length(Lengths<R...>, int64_t rank) {
    int64_t best = 0;
    for (const int64_t length : {int64_t(R)...})
        if (length >= rank && !is_odd<T>(length) && (best == 0 || length < best)) best = length;
    return best;
}

template <class T, Choice C, int Part = 0>
int64_t find_length(int64_t rank) {
    if (const int64_t found = next_length<T>(lengths<T, C, Part>(), rank)) return found;
    if constexpr (Part + 1 < n_parts<T, C>) return find_length<T, C, Part + 1>(rank);
    return is_complex<T> ? rank : (rank + length_unit - 1) / length_unit * length_unit;
}

#define TENSORMEND_DEFINE_PICK(target)                                                      \
    namespace target {                                                                      \
    template <class T, Choice C, int Part = 0>                                              \
    bool pick(int64_t length, Loops<T>& found) {                                            \
        if (find_loops<T, Part>(length, found)) return true;                                \
        if constexpr (Part + 1 < n_parts<T, C>) return pick<T, C, Part + 1>(length, found); \
        return false;                                                                       \
    }                                                                                       \
    template <class T, Choice C>                                                            \
    Loops<T> pick_any(int64_t length) {                                                     \
        Loops<T> found{};                                                                   \
        if (!pick<T, C>(length, found)) find_loops<T, 0>(0, found);                         \
        return found;                                                                       \
    }                                                                                       \
    }
TENSORMEND_DEFINE_PICK(baseline)
#ifdef TENSORMEND_HAS_AVX2
TENSORMEND_DEFINE_PICK(avx2)
#endif
#ifdef TENSORMEND_HAS_AVX512
TENSORMEND_DEFINE_PICK(avx512)
#endif
#undef TENSORMEND_DEFINE_PICK

// The length to which rows are filled up with zeros, and the loops for rows of that length.
template <class T>
struct RowLoops {
    int64_t length;
    Loops<T> loops;
    int64_t vector;  // bytes of the vectors in which the rows are read
};

// Entries a row from which on copying the rows is worth it for loops that are somewhat faster.
constexpr double many_per_row = 16;

// What a pass reads and writes at the entries.
struct Usage {
    int64_t n_rows, n_entries, n_fibres;
    bool has_sums;  // whether there are sums beside the rows

    double per_row() const { return double(n_entries) / double(std::max<int64_t>(1, n_rows)); }
    double per_fibre() const { return double(n_entries) / double(std::max<int64_t>(1, n_fibres)); }
};

#ifdef TENSORMEND_HAS_AVX512
// Whether rows of a rank are worth filling up to whole vectors of 64 bytes. The loops for these
// take entries of a fibre in groups of four. By measurement: where a row has not much less than
// the vectors of the narrower loops, only long fibres gain; and rows that become longer must not
// drop out of the first level of the cache.
template <class T>
bool pays_to_widen(int64_t rank, int64_t length, const Usage& usage) {
    constexpr int64_t size = sizeof(T), narrow = 32, min_rank = 5, cache = 32768;
    const int64_t wide = length * size % 64 == 0 ? 64 : 32;
    const int64_t narrow_length = find_length<T, Choice::all>(rank);
    const int64_t n_wide = length * size / wide;
    const int64_t n_narrow = (narrow_length * size + narrow - 1) / narrow;
    const int64_t bytes = usage.n_rows * length * size * (usage.has_sums ? 2 : 1);
    return rank >= min_rank && usage.per_row() >= many_per_row &&
           usage.per_fibre() >= (5 * n_wide <= 3 * n_narrow ? 6 : 24) &&
           (length == narrow_length || bytes <= cache);
}
#endif

// Loops for rows of a rank: for rows as they are, or, where `pads`, for rows filled up to a length
// with loops of its own, or for wide vectors.
template <class T>
RowLoops<T> pick_loops(int64_t rank, const Usage& usage, bool pads) {
#ifdef TENSORMEND_HAS_AVX512
    if constexpr (!is_complex<T>) {
        if (current_target() == Target::avx512) {
            RowLoops<T> found{find_length<T, Choice::wide>(rank), {}, 64};
            if (pays_to_widen<T>(rank, found.length, usage) &&
                avx512::pick<T, Choice::wide>(found.length, found.loops))
                return found;
        }
    }
#endif
    (void)usage;
#ifdef TENSORMEND_HAS_AVX2
    if (current_target() >= Target::avx2) {
        const int64_t length = pads ? find_length<T, Choice::all>(rank) : rank;
        return {length, avx2::pick_any<T, Choice::all>(length), 32};
    }
#endif
    const int64_t length = pads ? find_length<T, baseline_choice>(rank) : rank;
    return {length, baseline::pick_any<T, baseline_choice>(length), 16};
}

template <class T>
NodeLoops<T> pick_node_loops() {
#ifdef TENSORMEND_HAS_AVX512
    if constexpr (!is_complex<T>)
        if (current_target() == Target::avx512) return avx512::node_loops<T>();
#endif
#ifdef TENSORMEND_HAS_AVX2
    if (current_target() >= Target::avx2) return avx2::node_loops<T>();
#endif
    return baseline::node_loops<T>();
}

template <class T>
PanelLoops<T> pick_panel_loops() {
#ifdef TENSORMEND_HAS_AVX512
    if constexpr (!is_complex<T>)
        if (current_target() == Target::avx512) return avx512::panel_loops<T>();
#endif
#ifdef TENSORMEND_HAS_AVX2
    if (current_target() >= Target::avx2) return avx2::panel_loops<T>();
#endif
    return baseline::panel_loops<T>();
}

}  // namespace tensormend
