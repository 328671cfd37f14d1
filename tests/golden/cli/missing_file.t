--- about: a missing file is the input's fault and is named
--- run: check nowhere.plait
--- status: 1
--- err
error: cannot read 'nowhere.plait': No such file or directory [E190]
--- run: verify nowhere.plait --tp 8
--- status: 1
--- err
error: cannot read 'nowhere.plait': No such file or directory [E190]
