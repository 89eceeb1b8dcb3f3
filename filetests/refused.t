# What is not accepted, and how it is said. Line 1 is `table FAMILY t {`, line 4 the first rule.
engines interpreter kernel
hook netdev ingress lan

test keys of meta that can be written, not matched
rule meta nftrace 1
refused
    4:3-14: Could not process rule: Operation not supported

# nft ends by an assertion.
test registers have 16 words
engines interpreter
rule ip6 saddr . ip6 daddr . ip6 saddr . ip6 daddr . tcp dport { 2001:db8::1 . 2001:db8::1 . 2001:db8::1 . 2001:db8::1 . 1 }
refused
    4:61-121: Could not process rule: Invalid argument
    4:61-121: Could not process rule: No such file or directory
    4:49-59: Could not process rule: Numerical result out of range

test chains that call each other
with chain a { jump b; }
with chain b { jump a; }
rule jump a
refused
    6:3-8: Could not process rule: Too many links

test a chain that is not there
rule jump nowhere
refused
    4:8-14: Could not process rule: No such file or directory

test a set that is not there
rule ip saddr @nowhere
refused
    4:12-19: No such file or directory

test an object that is not there
rule counter name nowhere
refused
    4:16-22: Could not process rule: No such file or directory

test a key that is not of the set's type
with set s { type inet_service; }
rule ip saddr @s
refused
    5:12-13: datatype mismatch, expected IPv4 address, expression has type internet network service

test protocols that exclude each other
rule tcp dport 1 udp dport 1
refused
    4:15-23: conflicting protocols specified: tcp vs. udp

test values that do not fit
rule tcp dport 65536
rule ip ttl 256
rule vlan id 4096
refused
    4:13-17: Service out of range
    5:10-12: Value 256 exceeds valid range 0-255
    6:11-14: Value 4096 exceeds valid range 0-4095

test families that have no such header
hook ip prerouting
rule ip6 saddr ::1
refused
    4:3-11: conflicting protocols specified: ip vs. ip6

test elements that overlap
with set s { type ipv4_addr; flags interval; elements = { 198.18.0.0/24, 198.18.0.128/25 }; }
rule ip saddr @s
refused
    2:70-84: conflicting intervals specified

test a limit without a rate
rule limit rate 0/second
refused
    4:3-21: Could not process rule: Invalid argument

test fwd only where frames come in
hook inet prerouting
rule fwd to "wan"
refused
    4:3-14: unsupported family

test reject not on the way out
hook inet postrouting
rule reject
refused
    4:3-8: Could not process rule: Operation not supported

test fib for addresses that are not known yet
hook inet output
rule fib saddr . iif oif missing
refused
    4:3-29: Could not process rule: Operation not supported

