// SPDX-License-Identifier: Apache-2.0

// Adds tables, sets, chains and rules by the Go library for nf_tables, and prints what there is. It
// is linked statically, so that no library of C is between it and the system calls.
package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sort"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func port(number uint16) []byte {
	return binary.BigEndian.AppendUint16(nil, number)
}

// tcpDport is `meta l4proto tcp tcp dport`, in register 1.
func tcpDport() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
	}
}

func build(conn *nftables.Conn) {
	table := conn.AddTable(&nftables.Table{Name: "go", Family: nftables.TableFamilyINet})
	policy := nftables.ChainPolicyDrop
	input := conn.AddChain(&nftables.Chain{
		Name: "input", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &policy,
	})
	ports := &nftables.Set{Table: table, Name: "ports", KeyType: nftables.TypeInetService}
	must(conn.AddSet(ports, []nftables.SetElement{{Key: port(22)}, {Key: port(443)}}))
	hosts := &nftables.Set{Table: table, Name: "hosts", KeyType: nftables.TypeIPAddr, Interval: true}
	// As nft, it says where the first interval does not begin yet.
	must(conn.AddSet(hosts, []nftables.SetElement{
		{Key: net.IPv4zero.To4(), IntervalEnd: true},
		{Key: net.IPv4(198, 18, 0, 0).To4()},
		{Key: net.IPv4(198, 19, 0, 0).To4(), IntervalEnd: true},
	}))
	verdicts := &nftables.Set{
		Table: table, Name: "verdicts", IsMap: true,
		KeyType: nftables.TypeInetService, DataType: nftables.TypeVerdict,
	}
	must(conn.AddSet(verdicts, []nftables.SetElement{
		{Key: port(80), VerdictData: &expr.Verdict{Kind: expr.VerdictAccept}},
	}))
	conn.AddObj(&nftables.CounterObj{Table: table, Name: "seen"})
	conn.AddRule(&nftables.Rule{Table: table, Chain: input, UserData: []byte("\x00\x06hello\x00"),
		Exprs: append(tcpDport(),
			&expr.Lookup{SourceRegister: 1, SetName: "ports", SetID: ports.ID},
			&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept})})
	conn.AddRule(&nftables.Rule{Table: table, Chain: input,
		Exprs: append(tcpDport(), &expr.Lookup{
			SourceRegister: 1, DestRegister: 0, IsDestRegSet: true,
			SetName: "verdicts", SetID: verdicts.ID,
		})})
	conn.AddRule(&nftables.Rule{Table: table, Chain: input, Exprs: []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED),
			Xor:  binaryutil.NativeEndian.PutUint32(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
		&expr.Log{Key: 1 << unix.NFTA_LOG_PREFIX, Data: []byte("go: ")},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	must(conn.Flush())
}

func show(conn *nftables.Conn) {
	tables, err := conn.ListTables()
	must(err)
	for _, table := range tables {
		fmt.Println("table", table.Family, table.Name, table.Use)
		sets, err := conn.GetSets(table)
		must(err)
		sort.Slice(sets, func(i, j int) bool { return sets[i].Name < sets[j].Name })
		for _, set := range sets {
			elements, err := conn.GetSetElements(set)
			must(err)
			var keys []string
			for _, element := range elements {
				keys = append(keys, fmt.Sprintf("%x %v", element.Key, element.IntervalEnd))
			}
			sort.Strings(keys)
			fmt.Println("set", set.Name, set.KeyType.Name, set.IsMap, set.Interval, keys)
		}
		objects, err := conn.GetObjects(table)
		must(err)
		for _, object := range objects {
			fmt.Printf("object %T\n", object)
		}
	}
	chains, err := conn.ListChains()
	must(err)
	for _, chain := range chains {
		fmt.Println("chain", chain.Name, chain.Type, *chain.Hooknum, *chain.Priority, *chain.Policy)
		rules, err := conn.GetRules(chain.Table, chain)
		must(err)
		for _, rule := range rules {
			fmt.Printf("rule %d %q", rule.Handle, rule.UserData)
			for _, e := range rule.Exprs {
				fmt.Printf(" %T%+v", e, e)
			}
			fmt.Println()
		}
	}
}

func main() {
	conn, err := nftables.New()
	must(err)
	build(conn)
	show(conn)
	// A batch that fails changes nothing.
	table := &nftables.Table{Name: "go", Family: nftables.TableFamilyINet}
	conn.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyIPv4})
	conn.DelChain(&nftables.Chain{Name: "nowhere", Table: table})
	fmt.Println("refused:", conn.Flush())
	sets, err := conn.GetSets(table)
	must(err)
	for _, set := range sets {
		if set.Name == "ports" {
			must(conn.SetDeleteElements(set, []nftables.SetElement{{Key: port(22)}}))
			must(conn.SetAddElements(set, []nftables.SetElement{{Key: port(8080)}}))
		}
	}
	must(conn.Flush())
	show(conn)
	conn.FlushRuleset()
	must(conn.Flush())
	tables, err := conn.ListTables()
	must(err)
	fmt.Println("left:", len(tables))
}
