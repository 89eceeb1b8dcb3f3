# log: records that change nothing (net/netfilter/nft_log.c).
engines interpreter kernel
hook netdev ingress lan

test a log statement lets the packet go on
rule udp dport 1 log prefix "one " counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000100 ]
    [ log prefix one  ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 1-2 log group 3 snaplen 40 queue-threshold 2 counter drop
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp gte reg 1 0x00000100 ]
    [ cmp lte reg 1 0x00000200 ]
    [ log group 3 snaplen 40 qthreshold 2 ]
    [ counter pkts 0 bytes 0 ]
    [ immediate reg 0 drop ]
rule udp dport 3 log level debug flags all counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000300 ]
    [ log level 7 tcpseq tcpopt ipopt uid macdecode ]
    [ counter pkts 0 bytes 0 ]
rule udp dport 4 log counter
    [ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000400 ]
    [ log ]
    [ counter pkts 0 bytes 0 ]
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 1
    drop (log "one ", log "", c handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 2
    drop (log "", c handle 3)
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 3
    pass (log "")
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 4
    pass (log "")
packet ip 198.18.0.10 > 198.19.0.2 / udp 1 > 5
    pass
counters
    c 1: packets 1 bytes 28
    c 2: packets 2 bytes 56
    c 3: packets 1 bytes 28
    c 4: packets 1 bytes 28
