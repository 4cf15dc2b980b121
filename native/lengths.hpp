// Which loops are compiled.
#pragma once

#include <cstdint>

#include "loops.hpp"

namespace tensormend {

template <class T>
constexpr bool is_complex = false;
template <class Real>
constexpr bool is_complex<Complex<Real>> = true;

// Lengths of rows that have loops of their own; 0 stands for loops that take any length.
template <int... R>
struct Lengths {};

// How many lengths an instruction set has: all; few, where faster loops exist for most machines of
// an architecture; or those of whole vectors of 64 bytes, beside the loops of another set.
enum class Choice { all, few, wide };

// The lengths of one part of the loops; each part is compiled on its own. Other rows are filled up
// with zeros to the next of these lengths, which takes as many vector operations or a few more.
template <class T, Choice C, int Part>
constexpr auto lengths() {
    if constexpr (is_complex<T>) {
        if constexpr (C == Choice::few)
            return Lengths<0, 1, 2, 4>{};
        else
            return Lengths<0, 1, 2, 3, 4, 5, 6, 7, 8>{};
    } else if constexpr (C == Choice::few) {
        return Lengths<0, 1, 2, 4, 6, 8, 12, 16>{};
    } else if constexpr (C == Choice::wide) {
        if constexpr (Part == 0)
            return Lengths<8, 16, 24>{};
        else
            return Lengths<32, 40, 48, 56, 64>{};
    } else if constexpr (Part == 0) {
        return Lengths<0, 1, 2, 3, 4, 5, 6, 7, 8>{};
    } else if constexpr (Part == 1) {
        if constexpr (sizeof(T) == 4)
            return Lengths<9, 10, 12, 15, 16, 17, 18, 20>{};
        else
            return Lengths<9, 10, 12, 15, 16, 18, 20>{};
    } else if constexpr (Part == 2) {
        return Lengths<24, 28, 32>{};
    } else {
        return Lengths<40, 48, 56, 64>{};
    }
}

// Real rows of these lengths take fewer vector operations when they are filled up, too.
template <class T>
constexpr bool is_odd(int64_t length) {
    return !is_complex<T> &&
           (length == 3 || length == 7 || length == 15 || (length == 6 && sizeof(T) == 4));
}

template <class T, Choice C>
constexpr int n_parts = is_complex<T> || C == Choice::few ? 1
                        : C == Choice::wide               ? 2
                                                          : 4;

// Rows beyond the longest of these are filled up to a multiple of this.
constexpr int64_t length_unit = 8;

#define TENSORMEND_DECLARE_LOOPS(target)                                                     \
    namespace target {                                                                       \
    template <class T, int Part>                                                             \
    bool find_loops(int64_t length, Loops<T>& found); /* whether this part has the length */ \
    template <class T>                                                                       \
    NodeLoops<T> node_loops();                                                               \
    template <class T>                                                                       \
    PanelLoops<T> panel_loops();                                                             \
    }
TENSORMEND_DECLARE_LOOPS(baseline)
TENSORMEND_DECLARE_LOOPS(avx2)
TENSORMEND_DECLARE_LOOPS(avx512)
#undef TENSORMEND_DECLARE_LOOPS

#if defined(TENSORMEND_HAS_AVX2) || defined(_MSC_VER)
constexpr Choice baseline_choice = Choice::few;  // MSVC has no vector types, only rows of scalars
#else
constexpr Choice baseline_choice = Choice::all;
#endif

}  // namespace tensormend
