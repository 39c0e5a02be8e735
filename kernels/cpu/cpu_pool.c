/* The threads that share launches: one pool for the process. The pool is open while contexts
 * exist; its threads start with the first shared launch. If no thread can be started, and in
 * the child of a fork, the calling thread runs everything itself.
 *
 * A launch is a struct work on the stack of the calling thread; it is in a list until that
 * thread removes it. Threads take work-groups by an atomic counter. A thread without work
 * spins for some microseconds before it sleeps, so that launches in quick succession need not
 * wake it. Each woken thread wakes the next one, so that the calling thread pays for at most
 * one wake-up. Thread: any. */
#include "kernels/cpu/driver.h"
#include "kernels/machine.h"

#include <signal.h>
#include <stdlib.h>

enum {
    SPINS = 400 /* iterations of some ten nanoseconds: less than waking a thread takes */
};

struct work {
    struct work *next;
    const struct cpu_launch *launch; /* borrowed */
    size_t groups;
    atomic_size_t begun; /* groups started; exceeds `groups` when all are */
    atomic_uint helpers; /* pool threads that run its groups; changed under the lock */
};

static struct {
    pthread_mutex_t lock; /* guards all members except `posted` */
    pthread_cond_t posted_work;
    pthread_cond_t left_work;
    struct work *first;
    unsigned users;
    unsigned count;
    unsigned sleeping;
    bool started; /* the pool's threads were started, as far as possible */
    bool stop;
    atomic_uint posted; /* number of works posted so far; read by spinning threads */
    pthread_t threads[CPU_THREADS_MAX];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .posted_work = PTHREAD_COND_INITIALIZER,
          .left_work = PTHREAD_COND_INITIALIZER};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* yield takes no time on most processors */
#endif
}

static unsigned threads_wanted;

void cpu_pool_init(void)
{
    const char *text = getenv("TALLY_OPENCL_THREADS"); /* NOLINT(concurrency-mt-unsafe) */
    unsigned long number = text != NULL ? strtoul(text, NULL, 10) : 0;
    number = number > 0 ? number : machine_cores();
    threads_wanted = number < CPU_THREADS_MAX ? (unsigned)number : CPU_THREADS_MAX;
}

unsigned cpu_pool_threads(void)
{
    return threads_wanted;
}

static void run_groups(struct work *work)
{
    for (;;) {
        size_t group = atomic_fetch_add_explicit(&work->begun, 1, memory_order_relaxed);
        if (group >= work->groups) {
            return;
        }
        cpu_group_run(work->launch, group);
    }
}

static bool has_groups(struct work *work)
{
    return atomic_load_explicit(&work->begun, memory_order_relaxed) < work->groups;
}

/* Return a work with groups that are not started; NULL: none. The caller holds the lock. */
static struct work *find_work(void)
{
    struct work *work = pool.first;
    while (work != NULL && !has_groups(work)) {
        work = work->next;
    }
    return work;
}

/* The caller holds the lock. */
static void wake_one(void)
{
    if (pool.sleeping > 0) {
        MUST(pthread_cond_signal(&pool.posted_work));
    }
}

/* Spin for a while; return true as soon as work was posted after `seen`. */
static bool spin(unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool.posted, memory_order_acquire) != seen) {
            return true;
        }
        pause_briefly();
    }
    return false;
}

static void *pool_thread(void *argument)
{
    (void)argument;
    bool spun = false;
    MUST(pthread_mutex_lock(&pool.lock));
    while (!pool.stop) {
        struct work *work = find_work();
        if (work != NULL) {
            atomic_fetch_add(&work->helpers, 1);
            if (has_groups(work)) {
                wake_one();
            }
            MUST(pthread_mutex_unlock(&pool.lock));
            run_groups(work);
            MUST(pthread_mutex_lock(&pool.lock));
            if (atomic_fetch_sub(&work->helpers, 1) == 1) {
                MUST(pthread_cond_broadcast(&pool.left_work));
            }
            spun = false;
        } else if (!spun) {
            unsigned seen = atomic_load(&pool.posted);
            MUST(pthread_mutex_unlock(&pool.lock));
            spun = !spin(seen);
            MUST(pthread_mutex_lock(&pool.lock));
        } else {
            pool.sleeping++;
            MUST(pthread_cond_wait(&pool.posted_work, &pool.lock));
            pool.sleeping--;
            spun = false;
        }
    }
    MUST(pthread_mutex_unlock(&pool.lock));
    return NULL;
}

/* Reset the pool in the child of a fork, which has only the forking thread, and copies of
 * locks that other threads held. */
static void forget_threads(void)
{
    MUST(pthread_mutex_init(&pool.lock, NULL));
    MUST(pthread_cond_init(&pool.posted_work, NULL));
    MUST(pthread_cond_init(&pool.left_work, NULL));
    pool.first = NULL;
    pool.count = 0;
    pool.sleeping = 0;
    pool.started = true;
}

static void register_fork(void)
{
    /* If this fails for lack of memory, a child keeps the pool unchanged. */
    (void)pthread_atfork(NULL, NULL, forget_threads);
}

/* The caller holds the lock. The threads block all signals except those that their own faults
 * raise: a blocked fault would end the process even if the program has a handler (for example
 * for memory-mapped files that another process truncates). */
static void start_threads(void)
{
    static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t others;
    sigset_t before;
    MUST(pthread_once(&once, register_fork));
    (void)sigfillset(&others);
    for (size_t i = 0; i < ARRAY_COUNT(faults); i++) {
        (void)sigdelset(&others, faults[i]);
    }
    MUST(pthread_sigmask(SIG_SETMASK, &others, &before));
    while (pool.count + 1 < cpu_pool_threads() &&
           pthread_create(&pool.threads[pool.count], NULL, pool_thread, NULL) == 0) {
        pool.count++;
    }
    MUST(pthread_sigmask(SIG_SETMASK, &before, NULL));
    pool.started = true;
}

void cpu_pool_enter(void)
{
    MUST(pthread_mutex_lock(&pool.lock));
    pool.users++;
    MUST(pthread_mutex_unlock(&pool.lock));
}

/* The caller holds the lock; the function releases it while it waits, and holds it again at
 * the end. If another thread enters the pool meanwhile, its launches run without help until
 * all threads have stopped. */
static void stop_threads(void)
{
    unsigned count = pool.count;
    pool.stop = true;
    MUST(pthread_cond_broadcast(&pool.posted_work));
    MUST(pthread_mutex_unlock(&pool.lock));
    for (unsigned i = 0; i < count; i++) {
        MUST(pthread_join(pool.threads[i], NULL));
    }
    MUST(pthread_mutex_lock(&pool.lock));
    pool.stop = false;
    pool.count = 0;
    pool.started = false;
}

void cpu_pool_leave(void)
{
    MUST(pthread_mutex_lock(&pool.lock));
    if (--pool.users == 0 && pool.started && !pool.stop) {
        stop_threads();
    }
    MUST(pthread_mutex_unlock(&pool.lock));
}

/* Stop the threads before the process ends or the shared object is unloaded, even if contexts
 * still exist: no thread may run code that is about to be unmapped. */
__attribute__((destructor)) static void stop_at_unload(void)
{
    MUST(pthread_mutex_lock(&pool.lock));
    if (pool.started && !pool.stop) {
        stop_threads();
    }
    MUST(pthread_mutex_unlock(&pool.lock));
}

/* Remove the work from the list, so that no other thread starts to help, and wait for those
 * that do. */
static void finish_work(struct work *work)
{
    MUST(pthread_mutex_lock(&pool.lock));
    struct work **link = &pool.first;
    while (*link != work) {
        link = &(*link)->next;
    }
    *link = work->next;
    MUST(pthread_mutex_unlock(&pool.lock));
    for (int i = 0; i < SPINS && atomic_load(&work->helpers) > 0; i++) {
        pause_briefly();
    }
    MUST(pthread_mutex_lock(&pool.lock));
    while (atomic_load(&work->helpers) > 0) {
        MUST(pthread_cond_wait(&pool.left_work, &pool.lock));
    }
    MUST(pthread_mutex_unlock(&pool.lock));
}

void cpu_pool_run(const struct cpu_launch *launch, size_t groups)
{
    struct work work = {.launch = launch, .groups = groups};
    if (groups == 1 || cpu_pool_threads() == 1) {
        run_groups(&work);
        return;
    }
    MUST(pthread_mutex_lock(&pool.lock));
    if (!pool.started && !pool.stop) {
        start_threads();
    }
    work.next = pool.first;
    pool.first = &work;
    atomic_fetch_add_explicit(&pool.posted, 1, memory_order_release);
    wake_one();
    MUST(pthread_mutex_unlock(&pool.lock));
    run_groups(&work);
    finish_work(&work);
}
