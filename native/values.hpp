// What lies at the entries: measurements and leaf-mode coordinates.
#pragma once

#include <algorithm>
#include <cmath>
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

// Values at the entries: one of the two pointers is null.
template <class T>
struct Values {
    const T* whole = nullptr;
    const typename HalfOf<T>::type* half = nullptr;
};

// Leaf-mode coordinates of the entries in 32 bits or, to save memory, in 16: one of the two
// pointers is null.
struct Leaves {
    const uint32_t* whole = nullptr;
    const uint16_t* half = nullptr;
};

// Numbers of which some at a time are converted, in pieces small enough to stay in cache.
template <class From, class To>
class Converted {
public:
    static constexpr int64_t max_piece = 2048;

    Converted(const From* from, int64_t size) : from_(from), size_(size) {
        if (from) piece_.emplace_back(max_piece);
    }

    // Numbers [first, last), no more than a piece of them, until the next call.
    const To* read(int64_t first, int64_t last) {
        if (first < begin_ || last > end_) {
            begin_ = first;
            end_ = std::min(first + max_piece, size_);
            for (int64_t e = begin_; e < end_; ++e) convert(from_[e], piece_[0].data()[e - begin_]);
        }
        return piece_[0].data() + (first - begin_);
    }

private:
    static void convert(uint16_t from, uint32_t& to) { to = from; }
    template <class Real>
    static void convert(Real from, Real& to) {
        to = from;
    }
    static void convert(float from, double& to) { to = double(from); }
    static void convert(Complex<float> from, Complex<double>& to) {
        to = {double(from.re), double(from.im)};
    }

    const From* from_;
    int64_t size_, begin_ = 0, end_ = 0;
    std::vector<Buffer<To>> piece_;
};

// Reads what lies at the entries in the types of the loops, converting what takes half the bits.
template <class T>
class EntryReader {
public:
    EntryReader(const Leaves& leaves, const Values<T>& values, int64_t n_entries)
        : leaves_(leaves),
          values_(values),
          more_leaves_(leaves.half, n_entries),
          more_values_(values.half, n_entries) {}

    // Whether entries come in pieces.
    bool converts() const { return leaves_.half || values_.half; }

    // How far a piece that begins with entry `first` may reach.
    int64_t piece_end(int64_t first, int64_t last) const {
        return converts() ? std::min(last, first + MoreLeaves::max_piece) : last;
    }

    const uint32_t* leaves(int64_t first, int64_t last) {
        return leaves_.half ? more_leaves_.read(first, last) : leaves_.whole + first;
    }

    const T* values(int64_t first, int64_t last) {
        if (values_.half) return more_values_.read(first, last);
        return values_.whole ? values_.whole + first : nullptr;
    }

private:
    using MoreLeaves = Converted<uint16_t, uint32_t>;
    Leaves leaves_;
    Values<T> values_;
    MoreLeaves more_leaves_;
    Converted<typename HalfOf<T>::type, T> more_values_;
};

template <class T>
struct RealOf {
    using type = T;
};
template <class Real>
struct RealOf<Complex<Real>> {
    using type = Real;
};

struct Survey {
    double largest = 0;  // without its sign; NaN where there is one
    double square = 0;   // sum of squares
};

// Look at numbers once, in blocks whose sums are added in a fixed order.
template <class Real>
Survey survey(const Real* values, int64_t n, int64_t threads) {
    constexpr int64_t block = 16384;
    constexpr int lanes = 8;  // sums on their own, so that none waits for the one before
    std::vector<Survey> parts(size_t((n + block - 1) / block));
    run_tasks(int64_t(parts.size()), threads, [&](int64_t b) {
        Real largest[lanes] = {};
        double squares[lanes] = {};
        const int64_t end = std::min(n, (b + 1) * block);
        const auto look = [&](int64_t i, int lane) {
            const Real size = std::abs(values[i]);
            largest[lane] = std::max(largest[lane], size);
            squares[lane] += double(size) * double(size);
        };
        int64_t i = b * block;
        for (; i + lanes <= end; i += lanes)
            for (int lane = 0; lane < lanes; ++lane) look(i + lane, lane);
        for (; i < end; ++i) look(i, 0);
        Survey& part = parts[size_t(b)];
        for (int lane = 0; lane < lanes; ++lane) {
            part.largest = std::max(part.largest, double(largest[lane]));
            part.square += squares[lane];
        }
    });
    Survey all;
    for (const Survey& part : parts) {
        all.largest = std::max(all.largest, part.largest);
        all.square += part.square;
    }
    if (all.square != all.square) all.largest = all.square;  // comparisons pass NaN over
    return all;
}

}  // namespace tensormend
