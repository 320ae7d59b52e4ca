//! Steps that do nothing and expect a state: of a book, of an account.

use exchange::{OrderStanding, OrderView};
use protocol::{InstrumentId, Price, Side};

use super::run::Stage;

impl Stage {
    /// Compares a book: for each side its levels from the best on, displayed before hidden ones, then what waits.
    pub(super) fn check_book(&self, symbol: &str, expected: &[&str]) -> Result<(), String> {
        let actual = self.book_lines(self.world.instrument(symbol)?);
        let wanted: Vec<String> = expected
            .iter()
            .filter(|line| **line != "empty")
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let words = ["buy ", "sell ", "hidden buy ", "hidden sell ", "waiting: "];
        if let Some(line) = wanted.iter().find(|line| !words.iter().any(|word| line.starts_with(word))) {
            return Err(format!("{line:?} is no level of a book"));
        }
        // Which side comes first says nothing.
        for side in ["buy ", "sell ", "waiting: "] {
            let of_side = |lines: &[String]| -> Vec<String> {
                let is_of = |line: &&String| line.trim_start_matches("hidden ").starts_with(side);
                lines.iter().filter(is_of).cloned().collect()
            };
            let (wanted, actual) = (of_side(&wanted), of_side(&actual));
            if wanted != actual {
                let list =
                    |lines: &[String]| lines.iter().map(|line| format!("\n  {line}")).collect::<String>();
                return Err(format!("expected{}\ngot{}", list(&wanted), list(&actual)));
            }
        }
        Ok(())
    }

    fn book_lines(&self, instrument: InstrumentId) -> Vec<String> {
        let mut levels: Vec<(Side, Price, bool, Vec<String>)> = Vec::new();
        let mut waiting = Vec::new();
        self.duel.exchange().for_each_order(|order| {
            if order.instrument != instrument {
                return;
            }
            let text = self.order_text(order);
            let Some(price) = order.price else {
                return waiting.push(text);
            };
            let hidden = order.standing == OrderStanding::Hidden;
            match levels.iter_mut().find(|level| (level.0, level.1, level.2) == (order.side, price, hidden)) {
                Some(level) => level.3.push(text),
                None => levels.push((order.side, price, hidden, vec![text])),
            }
        });
        levels.sort_by_key(|(side, price, hidden, _)| match side {
            Side::Buy => (*side, -i128::from(price.0), *hidden),
            Side::Sell => (*side, i128::from(price.0), *hidden),
        });
        let mut lines: Vec<String> = levels
            .into_iter()
            .map(|(side, price, hidden, orders)| {
                format!("{}{side} {price}: {}", if hidden { "hidden " } else { "" }, orders.join(", "))
            })
            .collect();
        if !waiting.is_empty() {
            lines.push(format!("waiting: {}", waiting.join(", ")));
        }
        lines
    }

    /// `USER.LABEL QUANTITY`, of an iceberg `SHOWN+RESERVE`, and the stop price of one that has one.
    fn order_text(&self, order: &OrderView) -> String {
        let label = self.world.labels_of(order.session, order.client_order_id).swap_remove(0);
        let shown = order.leaves_quantity.0 - order.reserve_quantity.0;
        let mut text = format!("{}.{label} {shown}", self.world.name_of(order.session));
        if order.reserve_quantity.0 > 0 {
            text.push_str(&format!("+{}", order.reserve_quantity));
        }
        if let Some(stop) = order.stop_price {
            text.push_str(&format!(" stop={stop}"));
        }
        text
    }

    /// Compares an account's balances (`CODE total=N held=N`) or positions (`SYMBOL QUANTITY cost=N open-buy=N
    /// open-sell=N`), all of them in their order; what is not said is not compared.
    pub(super) fn check_account(
        &mut self,
        verb: &str,
        account: &str,
        expected: &[&str],
    ) -> Result<(), String> {
        let events = self.events(&format!("account-query {account}"), 1)?;
        let kind = verb.trim_end_matches('s');
        let expected: Vec<String> = expected
            .iter()
            .filter(|line| **line != "empty")
            .map(|line| match (kind, line.split_once(' ')) {
                ("position", Some((symbol, rest))) => format!("system position {rest} on={symbol}"),
                _ => format!("system {kind} {line}"),
            })
            .collect();
        let actual: Vec<_> = events.into_iter().filter(|event| event.kind == kind).collect();
        let same = actual.len() == expected.len()
            && actual.iter().zip(&expected).all(|(event, line)| event.agree_with(line));
        if same {
            return Ok(());
        }
        let lines = actual.iter().map(|event| format!("\n  {}", event.text())).collect::<String>();
        Err(format!("the {verb} of account {account} are{lines}"))
    }
}
