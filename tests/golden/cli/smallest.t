--- about: the smallest tail after all passes: one sum in the switch, one store to all
--- file: sum.plait
kernel sum(x: bf16[T, 1024] partial) -> y: bf16[T, 1024] replicated
{
    out y = all_reduce(x);
}
--- run: compile sum.plait --tp 8 --emit ir
--- out
kernel sum(in x: bf16[T, 1024] partial,
		out y: bf16[T, 1024] replicated) {
	%0 = load_sum x : bf16[T, 1024] sharded
	store_all y = %0
}
