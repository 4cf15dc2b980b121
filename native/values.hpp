// Measurements, kept in the type of the sums or in half of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "loops.hpp"
#include "parallel.hpp"

namespace tensormend {

template <class T>
struct HalfOf {
    using type = T;  // float32 and complex64 have no half here
};
template <>
struct HalfOf<double> {
    using type = float;
};
template <>
struct HalfOf<Complex<double>> {
    using type = Complex<float>;
};

template <class Real>
void widen(Real from, double& to) {
    to = double(from);
}
template <class Real>
void widen(Complex<Real> from, Complex<double>& to) {
    to = {double(from.re), double(from.im)};
}

// Values at the entries: one of the two pointers is null.
template <class T>
struct Values {
    const T* whole = nullptr;
    const typename HalfOf<T>::type* half = nullptr;
};

// Reads values in the type of the sums; those of half the size are converted a piece at a time,
// small enough to stay in cache.
template <class T>
class ValueReader {
public:
    explicit ValueReader(const Values<T>& values) : values_(values) {
        if (values.half) piece_.emplace_back(max_piece);
    }

    // How far a piece that begins with entry `first` may reach.
    int64_t piece_end(int64_t first, int64_t last) const {
        return values_.half ? std::min(last, first + max_piece) : last;
    }

    const T* read(int64_t first, int64_t last) const {
        if (!values_.half) return values_.whole + first;
        if constexpr (std::is_same_v<T, typename HalfOf<T>::type>) {
            return values_.half + first;
        } else {
            T* const out = piece_[0].data();
            for (int64_t e = first; e < last; ++e) widen(values_.half[e], out[e - first]);
            return out;
        }
    }

private:
    static constexpr int64_t max_piece = 2048;
    Values<T> values_;
    std::vector<Buffer<T>> piece_;
};

}  // namespace tensormend
