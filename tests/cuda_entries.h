// The kernels as functions that Python can call: after them in one file.

#define KERNEL(name, ...) extern "C" int run_##name(int grid_x, int grid_y, int block, int size, __VA_ARGS__)
#define RUN(call) return launch(grid_x, grid_y, block, size, [=] { call; })

KERNEL(attention, const Args *a) { RUN(attention(*a)); }
KERNEL(relate, const Args *a) { RUN(relate(*a)); }
KERNEL(attend, const Args *a) { RUN(attend(*a)); }
KERNEL(attention_tile, const Args *a) { RUN(attention_tile(*a)); }
KERNEL(read_each_other, const Args *a) { RUN(read_each_other(*a)); }
KERNEL(by_order, const Args *a) { RUN(by_order(*a)); }
KERNEL(by_tile, const Args *a) { RUN(by_tile(*a)); }
KERNEL(level_tile, const Args *a) { RUN(level_tile(*a)); }
KERNEL(match, const Args *a) { RUN(match(*a)); }
KERNEL(add_products, const Args *a, double *parts) { RUN(add_products(*a, parts)); }
KERNEL(add_parts, const Args *a, const double *parts, double *sums, int shares, int length) {
    RUN(add_parts(*a, parts, sums, shares, length));
}
KERNEL(by_level_of_many, const Args *a) { RUN(by_level_of_many(*a)); }
KERNEL(by_level, const Args *a) { RUN(by_level(*a)); }
KERNEL(count_unique, const Choices *choices, const Layers *layers, const int *sizes, int windows, int heads) {
    RUN(count_unique(*choices, *layers, sizes, windows, heads));
}
KERNEL(add_windows, const Sums *sums, const Layers *layers, int windows) { RUN(add_windows(*sums, *layers, windows)); }
KERNEL(mixed, const int *top, const double *drawn, const int *distinct, double *to, int layers, int windows, int heads,
       int most_ids) {
    RUN(mixed(top, drawn, distinct, to, layers, windows, heads, most_ids));
}
KERNEL(add_matrices, const Args *a, const unsigned char *counts, double *sums, int length) {
    RUN(add_matrices(*a, counts, sums, length));
}
KERNEL(relate_long, const Args *a) { RUN(relate_long(*a)); }
KERNEL(weigh_long, const Args *a) { RUN(weigh_long(*a)); }
#define SLAB_KERNEL(name) KERNEL(name, const Args *a, const Slab *slab) { RUN(name(*a, *slab)); }
SLAB_KERNEL(sum_rows)
SLAB_KERNEL(sum_columns)
SLAB_KERNEL(look_along)
SLAB_KERNEL(meet_pairs)
SLAB_KERNEL(find_edges_of_slabs)
SLAB_KERNEL(count_slab)
SLAB_KERNEL(end_order)
SLAB_KERNEL(end_levels)
