"""Keep-alives (RFC 5626 §4.4.1) over many connections: keep_alives.py udp|tcp|tls PORT PID.

Prints the CPU time of the process PID for each of them, over what it needs without.
"""

import glob
import socket
import ssl
import sys
import time

CONNECTIONS = 2000
PER_S = 10_000
SECONDS = 8

CONTEXT = ssl.create_default_context()
CONTEXT.check_hostname = False
CONTEXT.verify_mode = ssl.CERT_NONE


def cpu_us(pid):
    files = glob.glob(f"/proc/{pid}/task/*/schedstat")
    return sum(int(open(file).read().split()[0]) for file in files) / 1000


def connect(transport, port):
    if transport == "udp":
        plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        plain.connect(("127.0.0.1", port))
        return plain
    if transport == "tcp":
        return socket.create_connection(("127.0.0.1", port))
    return CONTEXT.wrap_socket(socket.create_connection(("127.0.0.1", port + 1)))


def main():
    transport, port, pid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ends = [connect(transport, port) for _ in range(16 if transport == "udp" else CONNECTIONS)]
    before = cpu_us(pid)
    time.sleep(2)
    idle = (cpu_us(pid) - before) / 2
    before, start, sent, answered = cpu_us(pid), time.monotonic(), 0, 0
    while (passed := time.monotonic() - start) < SECONDS:
        while sent < passed * PER_S:
            end = ends[sent % len(ends)]
            if transport != "udp" and sent >= len(ends):
                answered += len(end.recv(16)) == 2
            end.send(b"\r\n\r\n")
            sent += 1
        time.sleep(0.0005)
    spent = cpu_us(pid) - before - idle * (time.monotonic() - start)
    rate = sent / (time.monotonic() - start)
    print(f"{transport}: {spent / sent:.1f} us each at {rate:.0f}/s, {answered} answered of {sent}")


main()
