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
enum class Target { baseline, avx2 };

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

template <class T, bool Few, int Part = 0>
int64_t find_length(int64_t rank) {
    if (const int64_t found = next_length<T>(lengths<T, Few, Part>(), rank)) return found;
    if constexpr (Part + 1 < n_parts<T, Few>) return find_length<T, Few, Part + 1>(rank);
    return is_complex<T> ? rank : (rank + length_unit - 1) / length_unit * length_unit;
}

#define TENSORMEND_DEFINE_PICK(target)                                                   \
    namespace target {                                                                   \
    template <class T, bool Few, int Part = 0>                                           \
    Loops<T> pick(int64_t length) {                                                      \
        Loops<T> found{};                                                                \
        if (find_loops<T, Part>(length, found)) return found;                            \
        if constexpr (Part + 1 < n_parts<T, Few>) return pick<T, Few, Part + 1>(length); \
        find_loops<T, 0>(0, found);                                                      \
        return found;                                                                    \
    }                                                                                    \
    }
TENSORMEND_DEFINE_PICK(baseline)
#ifdef TENSORMEND_HAS_AVX2
TENSORMEND_DEFINE_PICK(avx2)
#endif
#undef TENSORMEND_DEFINE_PICK

// The loops for rows of the given length: their own, or those that take any.
template <class T>
Loops<T> pick_loops(int64_t length) {
#ifdef TENSORMEND_HAS_AVX2
    if (current_target() == Target::avx2) return avx2::pick<T, false>(length);
#endif
    return baseline::pick<T, baseline_has_few>(length);
}

template <class T>
NodeLoops<T> pick_node_loops() {
#ifdef TENSORMEND_HAS_AVX2
    if (current_target() == Target::avx2) return avx2::node_loops<T>();
#endif
    return baseline::node_loops<T>();
}

template <class T>
PanelLoops<T> pick_panel_loops() {
#ifdef TENSORMEND_HAS_AVX2
    if (current_target() == Target::avx2) return avx2::panel_loops<T>();
#endif
    return baseline::panel_loops<T>();
}

// The length to which rows are filled up with zeros: theirs, or the next one with its own loops.
template <class T>
int64_t pick_length(int64_t rank) {
#ifdef TENSORMEND_HAS_AVX2
    if (current_target() == Target::avx2) return find_length<T, false>(rank);
#endif
    return find_length<T, baseline_has_few>(rank);
}

}  // namespace tensormend
