--- about: --emit ast: one line a node, with the place of each; the IR of it; and a mistake
--- file: spec.plait
const n = 8, eps = 1e-5;
assert n % 2 == 0 && !false;
fn scale(x, k = 2.0) { h: bf16 = x * k; return -h; }
kernel k(x: bf16[T, n] partial ld = 16, inout r: f32[T, n] carried when true, w: bf16[n]) -> y: bf16[T, n] {
	deterministic;
	allow merged_sums;
	h = all_reduce(x, out = f32) + scale(r);
	out r = h;
	out y = rmsnorm(h, w = w, eps = eps);
}
model m {
	input e: bf16[T, n] partial;
	state s: f32[T, n] carried;
	weight g[2]: bf16[n];
	y = k(e, s, g[0]);
	repeat i in 0..2 {
		(d) = opaque f(y, g[i]) -> bf16[T, n] partial cost work(flops = 1);
		y = k(d, s, g[i]);
	}
	output y;
}
--- run: compile spec.plait --tp 8 --emit ast -o -
--- out
const n  spec.plait:1:7-1:12
  int 8  spec.plait:1:11-1:12
const eps  spec.plait:1:14-1:24
  real 1e-05  spec.plait:1:20-1:24
assert  spec.plait:2:1-2:29
  binary &&  spec.plait:2:8-2:28
    binary ==  spec.plait:2:8-2:18
      binary %  spec.plait:2:8-2:13
        name n  spec.plait:2:8-2:9
        int 2  spec.plait:2:12-2:13
      int 0  spec.plait:2:17-2:18
    unary !  spec.plait:2:22-2:28
      name false  spec.plait:2:23-2:28
fn scale  spec.plait:3:1-3:3
  fn-param x  spec.plait:3:10-3:11
  fn-param k  spec.plait:3:13-3:20
    real 2  spec.plait:3:17-3:20
  bind h  spec.plait:3:24-3:40
    type: type bf16  spec.plait:3:27-3:31
    binary *  spec.plait:3:34-3:39
      name x  spec.plait:3:34-3:35
      name k  spec.plait:3:38-3:39
  return  spec.plait:3:41-3:51
    unary -  spec.plait:3:48-3:50
      name h  spec.plait:3:49-3:50
kernel k  spec.plait:4:1-4:7
  param x  spec.plait:4:10-4:39
    type: type bf16  spec.plait:4:13-4:23
      name T  spec.plait:4:18-4:19
      name n  spec.plait:4:21-4:22
    attr partial  spec.plait:4:24-4:31
    attr ld  spec.plait:4:32-4:39
      int 16  spec.plait:4:37-4:39
  param r (inout)  spec.plait:4:41-4:77
    type: type f32  spec.plait:4:50-4:59
      name T  spec.plait:4:54-4:55
      name n  spec.plait:4:57-4:58
    attr carried  spec.plait:4:60-4:67
    attr when  spec.plait:4:68-4:77
      name true  spec.plait:4:73-4:77
  param w  spec.plait:4:79-4:89
    type: type bf16  spec.plait:4:82-4:89
      name n  spec.plait:4:87-4:88
  out: param y  spec.plait:4:94-4:107
    type: type bf16  spec.plait:4:97-4:107
      name T  spec.plait:4:102-4:103
      name n  spec.plait:4:105-4:106
  option deterministic  spec.plait:5:2-5:16
  option merged_sums  spec.plait:6:2-6:20
  bind h  spec.plait:7:2-7:42
    binary +  spec.plait:7:6-7:41
      call all_reduce  spec.plait:7:6-7:30
        arg  spec.plait:7:17-7:18
          name x  spec.plait:7:17-7:18
        arg out  spec.plait:7:20-7:29
          name f32  spec.plait:7:26-7:29
      call scale  spec.plait:7:33-7:41
        arg  spec.plait:7:39-7:40
          name r  spec.plait:7:39-7:40
  out r  spec.plait:8:2-8:12
    name h  spec.plait:8:10-8:11
  out y  spec.plait:9:2-9:39
    call rmsnorm  spec.plait:9:10-9:38
      arg  spec.plait:9:18-9:19
        name h  spec.plait:9:18-9:19
      arg w  spec.plait:9:21-9:26
        name w  spec.plait:9:25-9:26
      arg eps  spec.plait:9:28-9:37
        name eps  spec.plait:9:34-9:37
model m  spec.plait:11:1-11:6
  decl e (input)  spec.plait:12:2-12:30
    type: type bf16  spec.plait:12:11-12:21
      name T  spec.plait:12:16-12:17
      name n  spec.plait:12:19-12:20
    attr partial  spec.plait:12:22-12:29
  decl s (state)  spec.plait:13:2-13:29
    type: type f32  spec.plait:13:11-13:20
      name T  spec.plait:13:15-13:16
      name n  spec.plait:13:18-13:19
    attr carried  spec.plait:13:21-13:28
  decl g (weight)  spec.plait:14:2-14:23
    type: type bf16  spec.plait:14:15-14:22
      name n  spec.plait:14:20-14:21
    int 2  spec.plait:14:11-14:12
  bind  spec.plait:15:2-15:20
    target y  spec.plait:15:2-15:3
    call k  spec.plait:15:6-15:19
      arg  spec.plait:15:8-15:9
        name e  spec.plait:15:8-15:9
      arg  spec.plait:15:11-15:12
        name s  spec.plait:15:11-15:12
      arg  spec.plait:15:14-15:18
        index g  spec.plait:15:14-15:18
          int 0  spec.plait:15:16-15:17
  repeat i  spec.plait:16:2-16:8
    arg  spec.plait:16:14-16:15
      int 0  spec.plait:16:14-16:15
    arg  spec.plait:16:17-16:18
      int 2  spec.plait:16:17-16:18
    bind  spec.plait:17:3-17:70
      arg  spec.plait:17:4-17:5
        name d  spec.plait:17:4-17:5
      opaque f  spec.plait:17:9-17:69
        arg  spec.plait:17:18-17:19
          name y  spec.plait:17:18-17:19
        arg  spec.plait:17:21-17:25
          index g  spec.plait:17:21-17:25
            name i  spec.plait:17:23-17:24
        type: type bf16  spec.plait:17:30-17:40
          name T  spec.plait:17:35-17:36
          name n  spec.plait:17:38-17:39
        attr partial  spec.plait:17:41-17:48
        cost: call work  spec.plait:17:54-17:69
          arg flops  spec.plait:17:59-17:68
            int 1  spec.plait:17:67-17:68
    bind  spec.plait:18:3-18:21
      target y  spec.plait:18:3-18:4
      call k  spec.plait:18:7-18:20
        arg  spec.plait:18:9-18:10
          name d  spec.plait:18:9-18:10
        arg  spec.plait:18:12-18:13
          name s  spec.plait:18:12-18:13
        arg  spec.plait:18:15-18:19
          index g  spec.plait:18:15-18:19
            name i  spec.plait:18:17-18:18
  output  spec.plait:20:2-20:11
    name y  spec.plait:20:9-20:10
--- run: compile spec.plait --tp 8 --emit ir --stop-after expand -o -
--- out
kernel k(in x: bf16[T, 8] partial ld 16,
		inout r: f32[T, 8] carried,
		in w: bf16[8],
		out y: bf16[T, 8] replicated) deterministic merged_sums {
	%x = param x : bf16[T, 8] partial
	%r = param r : f32[T, 8] carried
	%w = param w : bf16[8]
	%3 = all_reduce %x : f32[T, 8] replicated
	%10 = const 2 : f32[]
	%11 = mul %r, %10 : f32[T, 8] carried
	%12 = cast %11 : bf16[T, 8] carried
	%13 = neg %12 : f32[T, 8] carried
	%h = add %3, %13 : f32[T, 8] carried
	out r = %h
	%14 = row_dot %h, %h : f32[T, 1] carried
	%15 = const 0.125 : f32[]
	%16 = mul %14, %15 : f32[T, 1] carried
	%17 = const 1e-05 : f32[]
	%18 = add %16, %17 : f32[T, 1] carried
	%19 = rsqrt %18 : f32[T, 1] carried
	%20 = mul %h, %19 : f32[T, 8] carried
	%21 = mul %20, %w : f32[T, 8] carried
	%8 = cast %21 : bf16[T, 8] carried
	out y = %8
}
--- run: check spec.plait --tp 8 --set n=7
--- status: 1
--- err
spec.plait:2:8: error: this does not hold [E212]
    2 | assert n % 2 == 0 && !false;
      |        ^^^^^^^^^^^^^^^^^^^^
      = note: change the constants it names, in the spec or by --set, or the assertion
