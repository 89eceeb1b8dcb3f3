// SPDX-License-Identifier: Apache-2.0

// A static Go client: goroutines with sockets of their own, blocking and through the poller, while
// the collector runs.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
)

func ask(fd int, sequence uint32) error {
	request := make([]byte, 20)
	binary.NativeEndian.PutUint32(request[0:], 20)
	binary.NativeEndian.PutUint16(request[4:], 0x0a10)
	binary.NativeEndian.PutUint16(request[6:], 1)
	binary.NativeEndian.PutUint32(request[8:], sequence)
	if err := syscall.Sendto(fd, request, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 8192)
	n, _, _, from, err := syscall.Recvmsg(fd, answer, nil, 0)
	if err != nil {
		return err
	}
	if sender, ok := from.(*syscall.SockaddrNetlink); !ok || sender.Pid != 0 || n < 20 {
		return fmt.Errorf("from %v", from)
	}
	if got := binary.NativeEndian.Uint32(answer[8:]); got != sequence {
		return fmt.Errorf("sequence %d, not %d", got, sequence)
	}
	return nil
}

func main() {
	var all sync.WaitGroup
	stop := make(chan bool)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for n := 0; n < 16; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_NETFILTER)
			if err == nil {
				err = syscall.Bind(fd, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK})
			}
			for sequence := uint32(1); sequence <= 100 && err == nil; sequence++ {
				err = ask(fd, sequence)
				for err == syscall.EINTR {
					err = ask(fd, sequence)
				}
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			syscall.Close(fd)
		}()
	}
	all.Wait()
	close(stop)
}
