// SPDX-License-Identifier: Apache-2.0

//! The widgets of the screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, TableState};

use super::scaled;
use super::screen::{KEYS, Screen};
use super::snapshot::View;

/// Screens with fewer lines have no graphs.
const WITH_GRAPHS: u16 = 16;
/// Lines of graphs with their titles.
const GRAPHS: u16 = 4;
/// Columns of a number.
const NUMBER: u16 = 10;
/// Fewer columns than these, and the name has all that is left.
const NAME: u16 = 16;

/// Draws all of it.
pub fn draw(screen: &mut Screen, frame: &mut Frame<'_>) {
    let area = frame.area();
    let graphs = if area.height >= WITH_GRAPHS { GRAPHS } else { 0 };
    let [head, tabs, graph, table, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(graphs),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(headline(screen, head.width), head);
    frame.render_widget(views(screen), tabs);
    let rows = screen.rows();
    screen.row = screen.row.min(rows.len().saturating_sub(1));
    if graphs > 0 {
        let marked = rows.get(screen.row).map(|row| row.name.clone());
        draw_graphs(screen, marked, frame, graph);
    }
    screen.page = usize::from(table.height.saturating_sub(1)).max(1);
    draw_rows(screen, rows, frame, table);
    frame.render_widget(footer(screen), foot);
    if screen.help {
        draw_help(frame, area);
    }
}

fn headline(screen: &Screen, width: u16) -> Line<'static> {
    /// With less there is no room for the name of the program.
    const WITH_PROGRAM: u16 = 72;
    let program = if width >= WITH_PROGRAM { "penstock: " } else { "" };
    let mut spans =
        vec![Span::from(program).bold(), Span::from(screen.now.headline(&screen.before))];
    if screen.paused {
        spans.push(Span::from(" paused ").reversed());
    }
    Line::from(spans)
}

fn views(screen: &Screen) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, view) in View::ALL.into_iter().enumerate() {
        let style = match view == screen.view {
            true => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
            false => Style::new(),
        };
        spans.push(Span::styled(format!(" {} {} ", number + 1, view.name()), style));
    }
    if !screen.filter.is_empty() && !screen.typing {
        spans.push(Span::from(format!("  with `{}`", screen.filter)).fg(Color::Yellow));
    }
    Line::from(spans)
}

fn draw_graphs(screen: &Screen, marked: Option<String>, frame: &mut Frame<'_>, area: Rect) {
    let third = Constraint::Ratio(1, 3);
    let areas: [Rect; 3] = Layout::horizontal([third; 3]).spacing(1).areas(area);
    let column = screen.view.columns().get(screen.column).map_or("", |(name, _)| name);
    let most = usize::from(areas[0].width);
    let of_row = marked
        .as_ref()
        .map_or(Vec::new(), |name| screen.history.row(screen.view, name, screen.column, most));
    let marked = format!("{column} {}", marked.unwrap_or_default());
    for (area, title, data, color) in [
        (areas[0], "received/s".to_owned(), screen.history.pace(0, most), Color::Green),
        (areas[1], "dropped/s".to_owned(), screen.history.pace(1, most), Color::Red),
        (areas[2], marked, of_row, Color::Cyan),
    ] {
        let last = data.last().copied().unwrap_or_default();
        let title = format!("{} {title}", scaled(last as f64));
        let title: String = title.chars().take(usize::from(area.width)).collect();
        let graph = Sparkline::default()
            .block(Block::new().title(title))
            .data(&data)
            .style(Style::new().fg(color));
        frame.render_widget(graph, area);
    }
}

fn draw_rows(screen: &Screen, rows: Vec<super::snapshot::Row>, frame: &mut Frame<'_>, area: Rect) {
    let columns = screen.view.columns();
    // What does not fit is left out, the column that is sorted by last of all.
    let room = area.width.saturating_sub(NAME) / (NUMBER + 1);
    let fits = usize::from(room).clamp(1, columns.len());
    let mut shown: Vec<usize> = (0..fits).collect();
    if screen.column >= fits {
        shown[fits - 1] = screen.column;
    }
    let with_packets = usize::from(room) > columns.len() && !screen.totals;
    let arrow = if screen.reversed { '▲' } else { '▼' };
    let number = |text: String| Cell::from(Line::from(text).right_aligned());
    let mut head: Vec<Cell<'_>> = Vec::new();
    for &column in &shown {
        let name = match screen.totals {
            true => columns[column].0.replace("/s", "").replace("bit", "bytes"),
            false => columns[column].0.to_owned(),
        };
        head.push(match column == screen.column {
            true => {
                number(format!("{name}{arrow}")).style(Style::new().add_modifier(Modifier::BOLD))
            }
            false => number(name),
        });
    }
    if with_packets {
        head.push(number("packets".to_owned()));
    }
    head.push(Cell::from(screen.view.name()));
    let width = area.width;
    let lines = rows.iter().map(|row| {
        let mut cells = Vec::new();
        for &column in &shown {
            let values = if screen.totals { &row.totals } else { &row.rates };
            cells.push(number(scaled(values.get(column).copied().unwrap_or_default())));
        }
        if with_packets {
            cells.push(number(scaled(row.totals.iter().step_by(2).sum())));
        }
        cells.push(Cell::from(row.name.chars().take(usize::from(width)).collect::<String>()));
        let is_still = row.rates.iter().all(|rate| *rate == 0.0);
        let style = if is_still { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
        Row::new(cells).style(style)
    });
    let mut widths = vec![Constraint::Length(NUMBER); shown.len() + usize::from(with_packets)];
    widths.push(Constraint::Min(NAME));
    let table = Table::new(lines, widths)
        .header(Row::new(head).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .column_spacing(1);
    let mut state = TableState::default().with_selected(Some(screen.row));
    frame.render_stateful_widget(table, area, &mut state);
}

fn footer(screen: &Screen) -> Line<'static> {
    if screen.typing {
        return Line::from(format!("/{}▏  Enter: done  Esc: all rows", screen.filter));
    }
    let keys = [
        ("1-4", "view"),
        ("s", "sort"),
        ("/", "filter"),
        ("t", "totals"),
        ("p", "pause"),
        ("?", "help"),
        ("q", "quit"),
    ];
    let spans = keys
        .into_iter()
        .flat_map(|(key, what)| [Span::from(key).reversed(), Span::from(format!(" {what} "))]);
    Line::from(spans.collect::<Vec<_>>())
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> =
        KEYS.iter().map(|(keys, what)| Line::from(format!(" {keys:<8} {what}"))).collect();
    let width = area.width.min(72);
    let height = (lines.len() as u16 + 2).min(area.height);
    let at = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, at);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), at);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::super::snapshot::Snapshot;
    use super::*;

    fn screen(view: View) -> Screen {
        let at = |time: f64, packets: u64| {
            let traffic = |n: u64| json!({ "frames": n, "bytes": n * 100 });
            json!({
                "time": time, "started": 100.0, "generation": 3, "connections": 2,
                "ports": [
                    { "name": "eth0", "received": traffic(packets), "sent": traffic(10),
                      "from_host": traffic(0), "to_host": traffic(0) },
                    { "name": "eth1", "received": traffic(packets * 2), "sent": traffic(5),
                      "from_host": traffic(0), "to_host": traffic(0) },
                ],
                "rules": [
                    { "family": "inet", "table": "t", "chain": "c", "handle": 4, "packets": packets,
                      "bytes": packets, "rule": "tcp dport 22 counter accept", "file": "r.nft", "line": 7 },
                ],
                "counters": [], "flows": { "count": 1, "most": [] }, "drops": { "no route": packets / 2 },
            })
            .to_string()
        };
        let (before, now) =
            Snapshot::read(&format!("{}\n{}", at(110.0, 1000), at(112.0, 3000))).unwrap();
        Screen::new(before, now, view)
    }

    /// The lines of a screen of a size.
    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(screen, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let cell = |x, y| buffer[(x, y)].symbol().to_owned();
        (0..height).map(|y| (0..width).map(|x| cell(x, y)).collect()).collect()
    }

    #[test]
    fn a_screen_of_sixty_columns_has_names_rates_and_keys() {
        let lines = drawn(&mut screen(View::Ports), 60, 20);
        assert!(
            lines[0].trim_end().ends_with("generation 3, 2 connections, 1 flows; rates over 2.0 s"),
            "{lines:#?}"
        );
        assert!(lines[1].starts_with(" 1 ports  2 rules  3 flows  4 drops "), "{lines:#?}");
        assert!(lines[2].starts_with("3000 received/s"), "{lines:#?}");
        assert!(
            lines[2].contains("1000 dropped/s") || lines[2].contains("500 dropped/s"),
            "{lines:#?}"
        );
        let row = |name: &str| {
            let line = lines.iter().rfind(|line| line.trim_end().ends_with(name));
            line.unwrap_or_else(|| panic!("{name}: {lines:#?}"))
                .split_whitespace()
                .collect::<Vec<_>>()
        };
        assert_eq!(row("ports"), ["in/s▼", "in", "bit/s", "out/s", "out", "bit/s", "ports"]);
        assert_eq!(row("eth1"), ["2000", "1600k", "0", "0", "eth1"]);
        assert!(lines[19].contains("filter") && lines[19].contains("quit"), "{lines:#?}");
    }

    #[test]
    fn small_screens_leave_graphs_and_columns_out() {
        for (width, height) in [(60, 8), (40, 10), (20, 5), (8, 3), (1, 1)] {
            let lines = drawn(&mut screen(View::Ports), width, height);
            assert!(!lines.iter().any(|line| line.contains("received/s")), "{lines:#?}");
            if width >= 40 {
                assert!(lines.iter().any(|line| line.contains("eth1")), "{lines:#?}");
            }
        }
        let wide = drawn(&mut screen(View::Rules), 120, 30);
        let rule = "inet t c 4 r.nft:7: tcp dport 22 counter accept";
        assert!(wide.iter().any(|line| line.contains(rule)), "{wide:#?}");
    }

    #[test]
    fn filters_and_help_are_seen() {
        let mut screen = screen(View::Ports);
        screen.filter = "ETH1".to_owned();
        let lines = drawn(&mut screen, 80, 24);
        assert!(lines[1].contains("with `ETH1`") && !lines.iter().any(|l| l.contains("eth0")));
        screen.help = true;
        let lines = drawn(&mut screen, 80, 24);
        for (keys, what) in KEYS {
            assert!(lines.iter().any(|line| line.contains(keys) && line.contains(what)), "{keys}");
        }
    }
}
