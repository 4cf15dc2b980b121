// The loops for one type of values (TENSORMEND_VALUE) and one part of the lengths of rows
// (TENSORMEND_PART of TENSORMEND_CHOICE), for one instruction set (TENSORMEND_TARGET, the
// namespace). Compiled once for each of these, in parallel.
#include "block.hpp"
#include "lengths.hpp"
#include "run.hpp"

namespace tensormend::TENSORMEND_TARGET {
namespace {

template <class T, int R>
Loops<T> table() {
    return {evaluate<T, R>, fibre_gradient<T, R>, gather<T, R>,  scatter<T, R>,
            values<T, R>,   gradient<T, R>,       tangent<T, R>, normal<T, R>};
}

template <class T, int... R>
bool look_up(Lengths<R...>, int64_t length, Loops<T>& found) {
    return ((length == R && (found = table<T, R>(), true)) || ...);
}

}  // namespace

template <class T, int Part>
bool find_loops(int64_t length, Loops<T>& found) {
    return look_up(lengths<T, Choice::TENSORMEND_CHOICE, Part>(), length, found);
}

template bool find_loops<TENSORMEND_VALUE, TENSORMEND_PART>(int64_t, Loops<TENSORMEND_VALUE>&);

#if TENSORMEND_PART == 0
template <class T>
NodeLoops<T> node_loops() {
    return {contract<T>, fold<T>};
}

template NodeLoops<TENSORMEND_VALUE> node_loops<TENSORMEND_VALUE>();

template <class T>
PanelLoops<T> panel_loops() {
    if constexpr (is_complex<T>)
        return {};  // left to BLAS
    else
        return {panel_gram<T>, panel_mix<T>, panel_multiply<T>, panel_adjoint<T>};
}

template PanelLoops<TENSORMEND_VALUE> panel_loops<TENSORMEND_VALUE>();
#endif

}  // namespace tensormend::TENSORMEND_TARGET
