// The innermost loops, as tables of function pointers so that they can be compiled once per
// instruction set and picked at run time.
#pragma once

#include <cstdint>

namespace tensormend {

// Not std::complex: its product checks for infinities, which costs a library call per entry, and
// its inline members could be emitted with vector instructions the machine lacks.
template <class Real>
struct Complex {
    Real re, im;
};

// Loops over rows of one length. `rank` is that length and `left` a matrix with such rows.
template <class T>
struct Loops {
    // out[e] = left[leaves[e]] . b
    void (*evaluate)(int64_t count, int64_t rank, const uint32_t* leaves, const T* left,
                     const T* b, T* out);

    // With the residual g = y - left[leaves] . b: acc = sum g conj(left[leaves]) and
    // along[leaves] += g conj(v). Returns the squared norm of g, and g itself unless `residual`
    // is null.
    double (*pull)(int64_t count, int64_t rank, const uint32_t* leaves, const T* y, const T* left,
                   const T* b, const T* v, T* acc, T* along, T* residual);

    // acc = sum y conj(left[leaves])
    void (*gather)(int64_t count, int64_t rank, const uint32_t* leaves, const T* y, const T* left,
                   T* acc);

    // along[leaves] += y conj(v)
    void (*scatter)(int64_t count, int64_t rank, const uint32_t* leaves, const T* y, const T* v,
                    T* along);

    // out = sum_a u[a] block[a], the rows of the block being `rank` long
    void (*contract)(int64_t n_rows, int64_t rank, const T* u, const T* block, T* out);

    // The adjoint of contract in both arguments:
    // grad[a] += conj(block[a]) . acc and up[a] += conj(u[a]) acc
    void (*fold)(int64_t n_rows, int64_t rank, const T* u, const T* block, const T* acc, T* grad,
                 T* up);
};

namespace baseline {
template <class T>
Loops<T> loops(int64_t rank);
}

namespace avx2 {
template <class T>
Loops<T> loops(int64_t rank);
}

// The fastest loops this machine can run for rows of the given length.
template <class T>
Loops<T> pick_loops(int64_t rank) {
#ifdef TENSORMEND_HAS_AVX2
    static const bool has_avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_avx2) return avx2::loops<T>(rank);
#endif
    return baseline::loops<T>(rank);
}

}  // namespace tensormend
