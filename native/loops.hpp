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

// Fibres [begin, end) of the last level of a tree, children of one node and so with different
// coordinates. Fibre f holds entries starts[f] to starts[f + 1], of which those outside
// [first, last) are left out; `leaves` and the values beside them begin with entry `first`.
struct Run {
    const uint32_t* nodes;
    const int64_t* starts;
    int64_t begin, end;
    int64_t first, last;
    const uint32_t* leaves;
};

// A Tucker tensor below the node of a run: the block of its core (n_rows x rank) that is left,
// the factor whose rows (n_rows long) belong to the fibres, and the leaf factor (rank columns).
template <class T>
struct Branch {
    const T* block;
    const T* factor;
    const T* leaf;
    int64_t n_rows, rank;
};

// Where the gradient of a run is added up, with respect to the three parts of a branch.
template <class T>
struct Gradient {
    T* block;
    T* factor;
    T* leaf;
};

// So many fibres, or nodes above them, are handled together where values are real.
constexpr int group_size = 4;

// Loops over rows of one length. `rank` is that length and `left` a matrix with such rows.
template <class T>
struct Loops {
    // out[e] = left[leaves[e]] . b, or, where `out` is null, the squared norm of all of these
    double (*evaluate)(int64_t count, int64_t rank, const uint32_t* leaves, const T* left,
                       const T* b, T* out);

    // With the residual g = y - left[leaves] . b: acc = sum g conj(left[leaves]) and
    // along[leaves] += g conj(v), no two leaves being the same. Returns the squared norm of g, and
    // g itself unless `residual` is null.
    double (*fibre_gradient)(int64_t count, int64_t rank, const uint32_t* leaves, const T* y,
                             const T* left, const T* b, const T* v, T* acc, T* along, T* residual);

    // acc = sum y conj(left[leaves])
    void (*gather)(int64_t count, int64_t rank, const uint32_t* leaves, const T* y, const T* left,
                   T* acc);

    // along[leaves] += y conj(v)
    void (*scatter)(int64_t count, int64_t rank, const uint32_t* leaves, const T* y, const T* v,
                    T* along);

    // Values of a branch at the entries of a run. `spare` holds group_size rows.
    double (*values)(const Run& run, const Branch<T>& x, T* out, T* spare);

    // Residual of a branch, or y itself without `subtract`, and its gradient with respect to the
    // branch. `spare` holds twice group_size rows.
    double (*gradient)(const Run& run, const Branch<T>& x, const T* y, bool subtract,
                       const Gradient<T>& sums, T* residual, T* spare);

    // Squared norm of the values of a tangent vector to a branch, the derivative of the branch as
    // its three parts move by those of `step`. The leaf rows of `step` are twice as long: those of
    // x and what they move by. `spare` holds three times group_size rows.
    double (*tangent)(const Run& run, const Branch<T>& x, const Branch<T>& step, T* spare);

    // The same, and the gradient for these values. `spare` holds four times group_size
    // rows.
    double (*normal)(const Run& run, const Branch<T>& x, const Branch<T>& step,
                     const Gradient<T>& sums, T* spare);
};

// Loops at the nodes above the fibres, over rows of any length.
template <class T>
struct NodeLoops {
    // out[k] = sum_a u[k][a] block[a] for up to group_size rows u[k], the rows of the block being
    // `rank` long, or, with `add`, that much more
    void (*contract)(int64_t count, int64_t n_rows, int64_t rank, const T* const* u, const T* block,
                     T* const* out, bool add);

    // The adjoint of contract in both arguments:
    // grad[k][a] += conj(block[a]) . acc[k] and up[a] += sum_k conj(u[k][a]) acc[k]
    void (*fold)(int64_t count, int64_t n_rows, int64_t rank, const T* const* u, const T* block,
                 const T* const* acc, T* const* grad, T* up);
};

// Panels are read in blocks of so many rows; rows of the small matrices beside them are filled up
// with zeros to a multiple of the unit, the longest vector of any target.
constexpr int panel_block = 64;
constexpr int panel_unit = 8;

// The panel base + step * across.
template <class T>
struct Moved {
    const T* base;
    const T* across;
    double step;
};

// Loops over matrices of many rows and few real columns. Matrices of double precision beside them
// are small; their rows, and those of blocks, are `padded` numbers long.
template <class T>
struct PanelLoops {
    // vz += v^T z and zz += z^T z (rank x padded) over rows [begin, end); `block` holds a zeroed
    // block
    void (*gram)(int64_t begin, int64_t end, int64_t rank, int64_t padded, const T* v,
                 const Moved<T>& z, double* vz, double* zz, double* block);

    // out = [v z] matrix and gram += out^T out over such rows; `blocks` holds two zeroed blocks
    void (*mix)(int64_t begin, int64_t end, int64_t rank, int64_t padded, const T* v,
                const Moved<T>& z, const double* matrix, T* out, double* gram, double* blocks);

    // Rows [begin, end) of left (`width` long) times the matrix (width x rank)
    void (*multiply)(int64_t begin, int64_t end, int64_t width, const T* left, const double* matrix,
                     int64_t rank, int64_t padded, T* out, double* block);

    // Rows [begin, end) of left^T right for n_rows rows of both, those of left `width` long;
    // `sums` holds as many padded rows of zeros
    void (*adjoint)(int64_t begin, int64_t end, int64_t width, int64_t n_rows, const T* left,
                    const double* right, int64_t rank, int64_t padded, T* out, double* sums);
};

}  // namespace tensormend
