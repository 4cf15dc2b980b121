// Threads, and the fixed chunks that make their answers independent of how many there are.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "loops.hpp"

namespace tensormend {

constexpr size_t cache_line = 64;
constexpr int64_t max_chunks = 64;

// Zeroed memory that shares no cache line with any other allocation.
template <class T>
class Buffer {
public:
    explicit Buffer(int64_t size) {
        // calloc, because fresh pages of a large and sparsely used buffer then cost nothing
        memory_.reset(std::calloc(size_t(size) * sizeof(T) + 2 * cache_line, 1));
        if (!memory_) throw std::bad_alloc();
        const auto address = reinterpret_cast<uintptr_t>(memory_.get());
        data_ = reinterpret_cast<T*>((address + cache_line - 1) / cache_line * cache_line);
    }

    T* data() const { return data_; }

private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    std::unique_ptr<void, Free> memory_;
    T* data_ = nullptr;
};

// Call task(0), ..., task(n_tasks - 1), each once, in any order on several threads. An exception
// in a task stops the hand-out of further tasks and is thrown again here.
template <class Task>
void run_tasks(int64_t n_tasks, int64_t threads, const Task& task) {
    std::atomic<int64_t> next{0};
    std::exception_ptr error;
    std::mutex error_mutex;
    const auto work = [&] {
        for (int64_t i; (i = next.fetch_add(1)) < n_tasks;) {
            try {
                task(i);
            } catch (...) {
                const std::lock_guard<std::mutex> lock(error_mutex);
                if (!error) error = std::current_exception();
                next = n_tasks;
            }
        }
    };
    std::vector<std::thread> pool;
    const int64_t n_helpers = std::min(threads, n_tasks) - 1;
    if (n_helpers > 0) pool.reserve(size_t(n_helpers));
    try {
        for (int64_t i = 0; i < n_helpers; ++i) pool.emplace_back(work);
    } catch (const std::system_error&) {
        // The system has no more threads to give: those that run do all the work.
    }
    work();
    for (auto& thread : pool) thread.join();
    if (error) std::rethrow_exception(error);
}

// Cut fibres into chunks of about equally many entries; returns where they begin, and the end.
// The cut depends on the problem alone, never on the number of threads. A chunk is large enough
// to be worth handing out and to pay for adding up its `n_partial` private values.
inline std::vector<int64_t> cut_chunks(const int64_t* starts, int64_t n_fibres,
                                       int64_t n_partial, size_t value_size) {
    constexpr int64_t min_entries = 32768, partials_per_entry = 4;
    constexpr int64_t max_partial_bytes = int64_t(256) << 20;
    const int64_t n_entries = starts[n_fibres];
    const int64_t partial_bytes = std::max<int64_t>(1, n_partial * int64_t(value_size));
    const int64_t n_chunks = std::max<int64_t>(
        1, std::min({max_chunks, max_partial_bytes / partial_bytes,
                     n_entries / std::max(min_entries, n_partial / partials_per_entry)}));
    std::vector<int64_t> cuts{0};
    for (int64_t c = 1; c <= n_chunks; ++c) {
        const int64_t entry = c < n_chunks ? n_entries / n_chunks * c : n_entries;
        const int64_t cut = std::lower_bound(starts, starts + n_fibres, entry) - starts;
        // A fibre longer than a chunk swallows the cuts inside it.
        if (cut > cuts.back()) cuts.push_back(cut);
    }
    return cuts;
}

// A private copy of values [offset, offset + size) of a sum.
template <class T>
struct Part {
    int64_t offset, size;
    const T* data;
};

inline void add_to(float* to, const float* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

inline void add_to(double* to, const double* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

template <class Real>
void add_to(Complex<Real>* to, const Complex<Real>* from, int64_t n) {
    add_to(reinterpret_cast<Real*>(to), reinterpret_cast<const Real*>(from), 2 * n);
}

// Add the parts to a sum, each value in the order of the parts.
template <class T>
void add_parts(T* sum, int64_t size, const std::vector<Part<T>>& parts, int64_t threads) {
    constexpr int64_t block = 16384;
    run_tasks((size + block - 1) / block, threads, [&](int64_t i) {
        for (const auto& part : parts) {
            const int64_t begin = std::max(i * block, part.offset);
            const int64_t end = std::min({(i + 1) * block, size, part.offset + part.size});
            if (begin < end) add_to(sum + begin, part.data + (begin - part.offset), end - begin);
        }
    });
}

}  // namespace tensormend
