#!/usr/bin/env python3
"""Terminates TLS for connections to one address and forwards them to another: API Gateway's domain for pods.

    tls_front.py LISTEN_HOST CERTIFICATE KEY TARGET_HOST:PORT

Prints the port that it listens on, and ends when its standard input closes.
"""

import asyncio
import ssl
import sys

host, certificate, key, target = sys.argv[1:]
target_host, target_port = target.rsplit(":", 1)


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(reader, writer):
    try:
        there = await asyncio.open_connection(target_host, int(target_port))
    except OSError:
        writer.close()
        return
    await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))


async def main():
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
