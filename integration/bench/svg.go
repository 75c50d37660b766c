package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// canvas collects the elements of an SVG picture.
type canvas struct {
	b             strings.Builder
	width, height float64
}

func (c *canvas) text(x, y, size float64, anchor, fill, s string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" font-size="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, size,
		anchor, fill, html.EscapeString(s))
}

func (c *canvas) rect(x, y, w, h float64, fill string) {
	fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, w, h, fill)
}

func (c *canvas) line(points [][2]float64, stroke string, width float64) {
	var list strings.Builder
	for _, p := range points {
		fmt.Fprintf(&list, "%.1f,%.1f ", p[0], p[1])
	}
	fmt.Fprintf(&c.b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f"/>`+"\n",
		strings.TrimSpace(list.String()), stroke, width)
}

func (c *canvas) String() string {
	return fmt.Sprintf(
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif">`+"\n", c.width, c.height, c.width, c.height) +
		fmt.Sprintf(`<rect width="%.0f" height="%.0f" fill="white"/>`+"\n", c.width, c.height) + c.b.String() +
		"</svg>\n"
}

const (
	ink   = "#222222"
	faint = "#777777"
	grid  = "#dddddd"
	ours  = "#1b6ca8"
	floor = "#9a9a9a"
	peer  = "#d8a24a"
)

func colour(name string) string {
	switch {
	case strings.HasPrefix(name, "svcfs"):
		return ours
	case name == "tmpfs", name == namePipeline, name == nameDirect:
		return floor
	}
	return peer
}

const (
	panelWidth  = 460.0
	panelGap    = 24.0
	barHeight   = 15.0
	labelWidth  = 160.0
	figureWidth = 62.0
)

// svg draws one panel of bars for each step, two beside each other.
func (r *report) svg() string {
	c := &canvas{width: 2*panelWidth + 3*panelGap}
	c.text(panelGap, 30, 17, "start", ink, "svcfs beside its floor and its peers")
	c.text(panelGap, 48, 11, "start", faint,
		"medians; blue = svcfs, grey = floor, yellow = others; bars of one panel share a scale")
	y := 64.0
	var left float64
	column := 0
	for _, sc := range r.scenes {
		for _, st := range sc.steps {
			height := r.panel(c, sc, st, panelGap+float64(column)*(panelWidth+panelGap), y)
			if column == 0 {
				column, left = 1, height
				continue
			}
			column = 0
			y += max(left, height) + panelGap
		}
	}
	if column == 1 {
		y += left + panelGap
	}
	c.height = y
	return c.String()
}

// panel draws the bars of one step and returns the height it took.
func (r *report) panel(c *canvas, sc *scene, st *step, x, y float64) float64 {
	better := "larger is better"
	if st.lower {
		better = "smaller is better"
	}
	c.text(x, y+14, 13, "start", ink, st.name)
	c.text(x+panelWidth, y+14, 10, "end", faint, sc.name+"; "+st.unit+", "+better)
	at, most := y+22, 0.0
	names := r.columns(sc)
	for _, name := range names {
		if v, ok := r.r.cells[st][name].median(valueOf); ok {
			most = max(most, v)
		}
	}
	for _, name := range names {
		v, ok := r.r.cells[st][name].median(valueOf)
		if !ok {
			continue
		}
		c.text(x+labelWidth-6, at+barHeight-4, 11, "end", ink, name)
		c.rect(x+labelWidth, at+2, max(1, (panelWidth-labelWidth-figureWidth)*v/most), barHeight-4, colour(name))
		c.text(x+panelWidth, at+barHeight-4, 11, "end", ink, short(v))
		at += barHeight
	}
	return at - y
}

// series is one line of a chart.
type series struct {
	name   string
	points [][2]float64
}

const (
	chartHeight = 220.0
	chartMargin = 56.0
)

// chart draws lines on logarithmic axes below a title and returns its height.
func (c *canvas) chart(x, y float64, title, xName string, lines []series) float64 {
	c.text(x, y+14, 13, "start", ink, title)
	left, top, right, bottom := x+chartMargin, y+26, x+panelWidth, y+26+chartHeight
	lowX, highX, lowY, highY := bounds(lines)
	place := func(p [2]float64) [2]float64 {
		return [2]float64{left + (right-left)*(math.Log10(p[0])-lowX)/(highX-lowX),
			bottom - (bottom-top)*(math.Log10(p[1])-lowY)/(highY-lowY)}
	}
	for d := math.Ceil(lowX); d <= highX; d++ {
		at := place([2]float64{math.Pow(10, d), math.Pow(10, lowY)})
		c.line([][2]float64{{at[0], top}, {at[0], bottom}}, grid, 1)
		c.text(at[0], bottom+14, 10, "middle", faint, power(d))
	}
	for d := math.Ceil(lowY); d <= highY; d++ {
		at := place([2]float64{math.Pow(10, lowX), math.Pow(10, d)})
		c.line([][2]float64{{left, at[1]}, {right, at[1]}}, grid, 1)
		c.text(left-6, at[1]+4, 10, "end", faint, power(d))
	}
	c.text(right, bottom+28, 11, "end", ink, xName)
	colours := []string{ours, peer, "#5a9a5a", "#a8481b", floor}
	for i, l := range lines {
		var points [][2]float64
		for _, p := range l.points {
			points = append(points, place(p))
		}
		stroke := colours[i%len(colours)]
		c.line(points, stroke, 2)
		c.text(left+8, top+14+13*float64(i), 11, "start", stroke, l.name)
	}
	return bottom + 34 - y
}

// bounds are the powers of ten between which all points lie.
func bounds(lines []series) (lowX, highX, lowY, highY float64) {
	lowX, lowY, highX, highY = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, l := range lines {
		for _, p := range l.points {
			lowX, highX = min(lowX, math.Log10(p[0])), max(highX, math.Log10(p[0]))
			lowY, highY = min(lowY, math.Log10(p[1])), max(highY, math.Log10(p[1]))
		}
	}
	lowY, highY = math.Floor(lowY), math.Ceil(highY)
	if highX <= lowX {
		highX = lowX + 1
	}
	if highY <= lowY {
		highY = lowY + 1
	}
	return lowX, highX, lowY, highY
}

func power(d float64) string {
	switch {
	case d >= 0 && d <= 4, d < 0 && d >= -3:
		return fmt.Sprintf("%g", math.Pow(10, d))
	}
	return fmt.Sprintf("1e%.0f", d)
}
