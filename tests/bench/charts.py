"""charts.py: two kinds of pictures as SVG, for pages: stacked bars in groups, and lines. Standard library only; the text is escaped."""
from xml.sax.saxutils import escape

COLOURS = ("#5a9e4b", "#e0b040", "#8a8f98", "#1b6ca8", "#c2562a", "#7b4fa3")
HEIGHT, TOP, LEFT = 190, 40, 52


def tick_step(top):
    """1, 2 or 5 times a power of ten, so that there are 4 to 9 steps up to `top`"""
    step = 10.0 ** -6
    for factor in (2, 2.5, 2) * 20:
        if top / step <= 9:
            return step
        step *= factor
    return step


def text(x, y, what, anchor="middle", **more):
    rest = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{rest}>{escape(str(what))}</text>'


def frame(width, height, title, body):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="12" fill="#333">',
                      f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>', text(LEFT, 18, title, "start", font_weight="bold"), *body, "</svg>", ""])


def grid(top, width, unit):
    out, step, t = [], tick_step(top), 0
    while t * step <= top * 1.0001:
        y = TOP + HEIGHT * (1 - t * step / top)
        out.append(f'<path d="M{LEFT} {y:.1f}h{width:.1f}" stroke="#ddd"/>' + text(LEFT - 5, y + 4, f"{t * step:g}", "end"))
        t += 1
    return out + [text(6, TOP - 8, unit, "start", fill="#666")]


def legend(names, y, dashed=()):
    out, x = [], LEFT
    for i, n in enumerate(names):
        dash = ' stroke-dasharray="5 4"' if i in dashed else ""
        out.append(f'<path d="M{x} {y - 4}h16" stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="{3 if dashed else 9}"{dash}/>' + text(x + 21, y, n, "start"))
        x += 36 + 7 * len(n)
    return out


def bars(title, unit, parts, groups):
    """groups: [(name, [(bar's name, [a value for each part])])]"""
    bar, gap = 26, 18
    top = max(sum(values) for _, group in groups for _, values in group) * 1.05
    width = sum(len(group) * bar + gap for _, group in groups)
    body, x = grid(top, width, unit), LEFT + gap / 2
    for name, group in groups:
        body.append(text(x + len(group) * bar / 2, TOP + HEIGHT + 58, name))
        for label, values in group:
            y = TOP + HEIGHT
            for i, v in enumerate(values):
                h = HEIGHT * v / top
                y -= h
                body.append(f'<rect x="{x + 3:.1f}" y="{y:.2f}" width="{bar - 6}" height="{h:.2f}" fill="{COLOURS[i]}"/>')
            middle = x + bar / 2
            body.append(text(middle, TOP + HEIGHT + 12, label, "end", transform=f"rotate(-45 {middle:.1f} {TOP + HEIGHT + 12})", font_size=10))
            x += bar
        x += gap
    return frame(max(LEFT + width + 12, 480), TOP + HEIGHT + 92, title, body + legend(parts, TOP + HEIGHT + 82))


def lines(title, unit, along, series, dashed=(), even=False):
    """series: [(name, [(x, y)])]; those whose numbers are in `dashed` are drawn so. even: the axis is divided evenly, not at every x."""
    width = 420
    xs = [p[0] for _, line in series for p in line]
    top, most = max(p[1] for _, line in series for p in line) * 1.08, max(xs)
    at_x, at_y = (lambda v: LEFT + 8 + (width - 16) * v / most), (lambda v: TOP + HEIGHT * (1 - v / top))
    body = grid(top, width, unit)
    step = tick_step(most)
    for v in [i * step for i in range(int(most / step) + 1)] if even else sorted(set(xs)):
        body.append(text(at_x(v), TOP + HEIGHT + 16, f"{v:g}"))
    body.append(text(LEFT + width, TOP + HEIGHT + 32, along, "end", fill="#666"))
    for i, (_, line) in enumerate(series):
        colour, dash = COLOURS[i % len(COLOURS)], ' stroke-dasharray="5 4"' if i in dashed else ""
        body.append(f'<polyline points="{" ".join(f"{at_x(p[0]):.1f},{at_y(p[1]):.1f}" for p in line)}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        body += [f'<circle cx="{at_x(p[0]):.1f}" cy="{at_y(p[1]):.1f}" r="3" fill="{colour}"/>' for p in line]
    rows = [legend(names, TOP + HEIGHT + 54 + 18 * k, [i - 3 * k for i in dashed] or (-1,)) for k, names in
            enumerate([n for n, _ in series][j:j + 3] for j in range(0, len(series), 3))]
    for k, row in enumerate(rows):  # colours go on from row to row
        for i, mark in enumerate(row):
            row[i] = mark.replace(f'stroke="{COLOURS[i % len(COLOURS)]}"', f'stroke="{COLOURS[(3 * k + i) % len(COLOURS)]}"', 1)
    return frame(LEFT + width + 16, TOP + HEIGHT + 48 + 18 * len(rows), title, body + [m for row in rows for m in row])
