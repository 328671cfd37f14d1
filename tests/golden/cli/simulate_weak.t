--- about: what only weak memory shows: a flag that is stored behind its data, and not released
--- file: mp.ptx
.version 7.8
.target sm_90
.address_size 64
.visible .entry mp(.param .u64 data, .param .u64 flag, .param .u64 y, .param .u32 rank)
{
	.reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %rd<6>;
	ld.param.u64 %rd0, [data]; cvta.to.global.u64 %rd1, %rd0;
	ld.param.u64 %rd2, [flag]; cvta.to.global.u64 %rd3, %rd2;
	ld.param.u64 %rd4, [y]; cvta.to.global.u64 %rd5, %rd4;
	ld.param.u32 %r0, [rank];
	mov.u32 %r1, 1;
	mov.u32 %r2, 1;
	setp.eq.u32 %p0, %r0, 1;
	@%p0 bra wait;
	st.relaxed.sys.global.u32 [%rd1], %r1;
	st.relaxed.sys.global.u32 [%rd3], %r1;
	bra end;
wait:
	ld.relaxed.sys.global.u32 %r3, [%rd3];
	setp.ne.u32 %p1, %r3, 1;
	@%p1 bra wait;
	ld.relaxed.sys.global.u32 %r2, [%rd1];
end:
	st.global.u32 [%rd5], %r2;
	ret;
}
--- file: mp.json
{ "ptx": "mp.ptx", "ranks": 2,
  "buffers": {
    "data": {"bytes": 4, "symmetric": "peer", "fill": 0},
    "flag": {"bytes": 4, "symmetric": "peer", "fill": 0},
    "y":    {"bytes": 4, "same": true} },
  "launches": [
    {"entry": "mp", "grid": 1, "block": 1,
     "arguments": [{"address": "data", "rank": 1}, {"address": "flag", "rank": 1}, {"address": "y"}, "rank"]} ] }
--- run: simulate mp.json --schedules 40 --weak no
--- out
mp.json: 40 schedules on 2 ranks, no finding (0.0 million lane instructions)
--- run: simulate mp.json --schedules 40
--- status: 1
--- out
byte 0 of 'y' differs between ranks 0 and 1; PTX line 24 wrote it on rank 0, line 24 on rank 1
  schedule 3: pct, weak memory; again: plait simulate mp.json --seed 3 --schedules 1
--- run: simulate mp.json --weak perhaps
--- status: 2
--- err
plait simulate: --weak takes yes or no, not 'perhaps'
(plait simulate --help lists the options)
