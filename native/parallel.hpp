// Threads, and the fixed chunks that make their answers independent of how many there are.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "loops.hpp"

#if defined(__unix__) || defined(__APPLE__)
#define TENSORMEND_HAS_FORK
#include <unistd.h>
#endif

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

// Look for something to happen for longer than the gap between two passes of a small problem,
// leaving the core to whoever else wants it: being woken from sleep would cost such a pass a tenth
// to a third of its time.
template <class Condition>
void watch_for(const Condition& happened) {
    constexpr auto patience = std::chrono::microseconds(2000);
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!happened() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

// Threads that wait for work, because starting them anew would cost a small pass a tenth of its
// time. One job at a time; a caller who finds them busy starts threads of its own. They are never
// joined: at exit they wait, and after a fork, where they are gone, a new crew is made.
class Crew {
public:
    // Whether the threads are in this process and not left behind by a fork.
    bool is_ours() const { return owner_ == process(); }

    // Run `work` on up to n_helpers threads beside the caller's, or return false if busy.
    bool help(int64_t n_helpers, const std::function<void()>& work) {
        std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
        if (!turn.owns_lock()) return false;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            try {
                for (; n_threads_ < n_helpers; ++n_threads_)
                    std::thread([this, index = n_threads_] { wait(index); }).detach();
            } catch (const std::system_error&) {
                // The system has no more threads to give: those that run do all the work.
            }
            work_ = &work;
            n_called_ = std::min(n_helpers, n_threads_);
            n_running_ = n_called_;
            ++round_;
        }
        called_.notify_all();
        work();
        watch_for([this] { return n_running_ == 0; });
        std::unique_lock<std::mutex> lock(mutex_);
        finished_.wait(lock, [this] { return n_running_ == 0; });
        return true;
    }

private:
    void wait(int64_t index) {
        std::unique_lock<std::mutex> lock(mutex_);
        // a thread that starts late takes part in the round that started it
        for (uint64_t seen = index < n_called_ ? round_ - 1 : round_.load();; seen = round_) {
            if (index < n_called_) {  // the others sleep until more of them are wanted
                lock.unlock();
                watch_for([&] { return round_ != seen; });
                lock.lock();
            }
            called_.wait(lock, [&] { return round_ != seen; });
            if (index >= n_called_) continue;
            const auto* const work = work_;
            lock.unlock();
            (*work)();
            lock.lock();
            if (--n_running_ == 0) finished_.notify_one();
        }
    }

    static int64_t process() {
#ifdef TENSORMEND_HAS_FORK
        return int64_t(getpid());
#else
        return 0;
#endif
    }

    const int64_t owner_ = process();
    std::mutex turn_, mutex_;
    std::condition_variable called_, finished_;
    const std::function<void()>* work_ = nullptr;
    int64_t n_threads_ = 0, n_called_ = 0;
    std::atomic<int64_t> n_running_{0};  // these two change under the mutex and are watched without
    std::atomic<uint64_t> round_{0};
};

// The crew of this process.
inline Crew& crew() {
    static std::atomic<Crew*> current{nullptr};
    Crew* found = current.load();
    if (!found || !found->is_ours()) {
        auto fresh = std::make_unique<Crew>();
        if (current.compare_exchange_strong(found, fresh.get())) found = fresh.release();
    }
    return *found;
}

// Call task(0), ..., task(n_tasks - 1), each once, in any order on several threads. An exception
// in a task stops the hand-out of further tasks and is thrown again here.
template <class Task>
void run_tasks(int64_t n_tasks, int64_t threads, const Task& task) {
    std::atomic<int64_t> next{0};
    std::exception_ptr error;
    std::mutex error_mutex;
    const std::function<void()> work = [&] {
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
    const int64_t n_helpers = std::min(threads, n_tasks) - 1;
    if (n_helpers <= 0) {
        work();
    } else if (!crew().help(n_helpers, work)) {
        std::vector<std::thread> own;
        own.reserve(size_t(n_helpers));
        try {
            for (int64_t i = 0; i < n_helpers; ++i) own.emplace_back(work);
        } catch (const std::system_error&) {
            // as above
        }
        work();
        for (auto& thread : own) thread.join();
    }
    if (error) std::rethrow_exception(error);
}

// Consecutive entries that one task takes care of, and the fibres they lie in, of which the first
// and the last may be shared with the neighbours.
struct Chunk {
    int64_t first_fibre, end_fibre, first, last;
};

// Cut the entries into chunks of about equally many. The cut depends on the problem alone, never
// on the number of threads. A chunk is large enough to be worth handing out and to pay for adding
// up its `n_partial` private values. Cuts fall between fibres unless a fibre is longer than that.
inline std::vector<Chunk> cut_chunks(const int64_t* starts, int64_t n_fibres, int64_t n_partial,
                                     size_t value_size) {
    constexpr int64_t min_entries = 16384, partials_per_entry = 4;
    constexpr int64_t max_partial_bytes = int64_t(256) << 20;
    const int64_t n_entries = starts[n_fibres];
    const int64_t partial_bytes = std::max<int64_t>(1, n_partial * int64_t(value_size));
    const int64_t n_chunks = std::max<int64_t>(
        1, std::min({max_chunks, max_partial_bytes / partial_bytes,
                     n_entries / std::max(min_entries, n_partial / partials_per_entry)}));
    const int64_t size = n_entries / n_chunks;
    std::vector<Chunk> chunks;
    int64_t first = 0, fibre = 0;
    for (int64_t c = 1; c <= n_chunks; ++c) {
        int64_t last = c < n_chunks ? size * c : n_entries;
        int64_t end = std::lower_bound(starts, starts + n_fibres, last) - starts;
        if (starts[end] - last <= size / 4) {
            last = starts[end];  // the end of the fibre is near
        } else if (last - starts[end - 1] <= size / 4) {
            last = starts[--end];  // its beginning is
        }
        if (last <= first) continue;
        chunks.push_back({fibre, end, first, last});
        first = last;
        fibre = starts[end] > last ? end - 1 : end;
    }
    return chunks;
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
