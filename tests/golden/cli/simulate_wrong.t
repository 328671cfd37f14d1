--- about: each mistake of a launch description in one sentence
--- file: nomember.json
{"ptx": "k.ptx", "ranks": 2, "buffers": {}, "launch": []}
--- file: noptx.json
{"ptx": "absent.ptx", "ranks": 1, "buffers": {}, "launches": [{"entry": "k", "grid": 1, "block": 1}]}
--- file: ranks.json
{"ptx": "k.ptx", "ranks": 99, "buffers": {}, "launches": []}
--- file: nobuffer.json
{"ptx": "k.ptx", "ranks": 2, "buffers": {}, "launches": [{"entry": "k", "grid": 1, "block": 1, "arguments": [{"peers": "x"}]}]}
--- file: own.json
{"ptx": "k.ptx", "ranks": 2, "buffers": {"x": {"bytes": 16}}, "launches": [{"entry": "k", "grid": 1, "block": 1, "arguments": [{"peers": "x"}]}]}
--- file: cut.json
{"ptx": "k.ptx",
--- run: simulate nomember.json
--- status: 1
--- err
error: nomember.json: the description has no member 'launch' [E920]
--- run: simulate noptx.json
--- status: 1
--- err
error: cannot read 'absent.ptx': No such file or directory [E190]
--- run: simulate ranks.json
--- status: 1
--- err
error: ranks.json: ranks is a whole number from 1 to 16 [E920]
--- run: simulate nobuffer.json
--- status: 1
--- err
error: nobuffer.json: there is no buffer 'x' [E920]
--- run: simulate own.json
--- status: 1
--- err
error: own.json: buffer 'x' is not symmetric: other ranks do not reach it [E920]
--- run: simulate cut.json
--- status: 1
--- err
error: cut.json: it is not JSON, near line 1 [E920]
