--- about: all mistakes of a file in one run, each with its span, its code and the way to mend it
--- file: wrong.plait
const hidden = 1024;
kernel k(x: bf16[T, hidden] partial, gamma: bf16[hidden]) -> y: bf16[T, hidden] replicated
{
    h     = all_reduc(x);
    out y = rmsnorm(exp(x), gama, eps = 1e-5);
}
--- run: check wrong.plait --tp 8
--- status: 1
--- err
wrong.plait:4:13: error: there is no operation or function 'all_reduc' [E204]
    4 |     h     = all_reduc(x);
      |             ^^^^^^^^^
      = note: did you mean 'all_reduce'?
wrong.plait:5:25: error: 'exp' is not linear, and bf16[T, 1024] partial is an addend on each rank [E401]
    5 |     out y = rmsnorm(exp(x), gama, eps = 1e-5);
      |                         ^
      = note: reduce it first: all_reduce(x) or reduce_scatter(x)
wrong.plait:5:29: error: 'gama' is not defined [E200]
    5 |     out y = rmsnorm(exp(x), gama, eps = 1e-5);
      |                             ^^^^
      = note: did you mean 'gamma'?
