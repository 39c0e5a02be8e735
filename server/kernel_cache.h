/* The directory of --kernel-cache. */
#ifndef TALLY_SERVER_KERNEL_CACHE_H
#define TALLY_SERVER_KERNEL_CACHE_H

/* Make the directory ("" for none), and have PoCL keep its own cache in it unless
 * POCL_CACHE_DIR says otherwise; 0 or an errno. Thread: main, before any other starts: it
 * changes the environment. */
int kernel_cache_prepare(const char *directory);

#endif
