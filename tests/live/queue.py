# Listens to a queue (docs/queue.md) and answers every packet alike.
import socket, struct, sys

listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1])
listener.listen()
answer = {"drop": 0, "accept": 1}[sys.argv[2]]
while True:
    stream, _ = listener.accept()
    # Open: version 1, no flags, 64 bytes of each packet, 100 of them, window 1.
    opened = struct.pack("<BHHIII", 1, 1, 0, 64, 100, 1)
    stream.sendall(struct.pack("<I", len(opened)) + opened)
    data = stream.makefile("rb")
    while head := data.read(4):
        message = data.read(struct.unpack("<I", head)[0])
        if message[0] == 16:
            reply = struct.pack("<BQBBHI", 2, struct.unpack("<Q", message[1:9])[0], answer, 0, 0, 0)
            stream.sendall(struct.pack("<I", len(reply)) + reply)
