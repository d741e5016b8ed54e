"""What the kernel refuses to code under test: system calls by their numbers, for the machines that are known.

Network (but a process's own pairs of pipes), other processes and signals to them, more room or other rights, every
change to a file, and the machine itself. The numbers are Linux's own and never change.
"""

from __future__ import annotations

import platform
from typing import Any

_MACHINES: dict[str, tuple[int, dict[str, int], str]] = {
    "x86_64": (
        0xC000003E,
        {"clone": 56, "clone3": 435, "tgkill": 234, "prlimit64": 302, "open": 2, "openat": 257},
        """
            29 30 31 41 42 43 44 45 46 47 49 50 57 58 59 62 64 68 76 77 80 81 82 83 84 85 86 87 88 90 91 92 93
            94 101 103 105 106 109 112 113 114 116 117 119 126 129 132 133 135 141 144 153 155 159 160 161 163
            164 165 166 167 168 169 170 171 172 173 175 176 179 188 189 190 197 198 199 200 227 235 240 246 248
            249 250 253 258 259 260 261 263 264 265 266 268 272 280 285 288 294 297 298 299 300 303 304 305 307
            308 310 311 312 313 316 317 319 320 321 322 323 424 425 426 427 428 429 430 431 432 433 434 437 438
            440 442 447 452
        """,
    ),
    "aarch64": (
        0xC00000B7,
        {"clone": 220, "clone3": 435, "tgkill": 131, "prlimit64": 261, "openat": 56},
        """
            5 6 7 14 15 16 26 33 34 35 36 37 38 39 40 41 45 46 47 49 50 51 52 53 54 55 58 60 88 89 91 92 97 104
            105 106 112 116 117 119 129 130 138 140 142 143 144 145 146 147 149 154 157 159 161 162 164 170 171
            180 186 190 194 195 196 198 200 201 202 203 206 207 211 212 217 218 219 221 224 225 240 241 242 243
            262 264 265 266 268 269 270 271 272 273 276 277 279 280 281 282 294 424 425 426 427 428 429 430 431
            432 433 434 437 438 440 442 447 452
        """,
    ),
}


def refused_here() -> dict[str, Any] | None:
    """The numbers for this machine; None where no kernel of ours is known."""
    found = _MACHINES.get(platform.machine()) if platform.system() == "Linux" else None
    if found is None:
        return None
    audit, special, plain = found
    return {"audit": audit, "special": special, "plain": [int(one) for one in plain.split()]}
