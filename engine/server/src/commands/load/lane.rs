//! One connection of the load: what it sends, when each request was due, and its own count of what came back.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use client::{Client, ClientConfig, ClientEvent, Outcome};
use protocol::{Event, RequestId, TradingDay, UserName};

use super::failover::Outlook;
use super::orders::Orders;
use super::result::Tally;
use super::verify::{self, Told, Verified};
use crate::commands::connect;
use crate::error::CommandError;

/// A connection with its flow.
pub(super) struct Lane {
    config: ClientConfig,
    client: Client,
    orders: Orders,
    outlook: Outlook,
    /// Kept where it is to be compared with the reports at the end.
    told: Option<Told>,
    trading_day: TradingDay,
    sent: u64,
    /// Id of the oldest request without an outcome; of the first one before there is any.
    oldest: RequestId,
    /// When each request from the oldest on was due. `None` once it has its outcome. The window bounds it.
    due: VecDeque<Option<Instant>>,
    pub(super) resent: usize,
    pub(super) reconnects: u64,
}

impl Lane {
    pub(super) fn new(config: ClientConfig, client: Client, orders: Orders, verify: bool) -> Self {
        Self {
            trading_day: client.last_report().map_or(TradingDay(0), |(day, _)| day),
            config,
            client,
            orders,
            outlook: Outlook::new(),
            told: verify.then(Told::default),
            sent: 0,
            oldest: RequestId(0),
            due: VecDeque::new(),
            resent: 0,
            reconnects: 0,
        }
    }

    /// Submits the flow's next request; false where the window is full.
    pub(super) fn submit(&mut self, due: Instant) -> bool {
        // The flow moves on only with a request that was taken.
        let Ok(id) = self.client.submit(self.orders.peek()) else { return false };
        self.orders.taken(id);
        if self.due.is_empty() {
            self.oldest = id;
        }
        if let Some(told) = &mut self.told {
            told.submitted(id);
        }
        self.sent += 1;
        self.due.push_back(Some(due));
        true
    }

    /// Writes what waits and takes what came; whether anything came.
    pub(super) fn serve(
        &mut self,
        tally: &mut Tally,
        outcomes: &mut Option<BufWriter<File>>,
        measure_from: Instant,
    ) -> Result<bool, CommandError> {
        let Self { config, client, outlook, told, due, oldest, resent, reconnects, .. } = self;
        let mut now = None;
        let mut written = Ok(());
        let mut heard = false;
        let polled = client.poll(Duration::ZERO, |event| {
            heard = true;
            match event {
                ClientEvent::Outcome(id, outcome) => {
                    let now = *now.get_or_insert_with(Instant::now);
                    let place = id.0.checked_sub(oldest.0).and_then(|place| usize::try_from(place).ok());
                    match place.and_then(|place| due.get_mut(place)).and_then(Option::take) {
                        Some(due) => tally.outcome(outcome, now, due, measure_from),
                        None => tally.duplicated += 1,
                    }
                    if let Outcome::Done(number) | Outcome::Rejected(number, _) = outcome {
                        outlook.acked(number, &mut tally.failovers, now);
                    }
                    if let Some(told) = told {
                        told.outcome(id, outcome);
                    }
                    while let Some(None) = due.front() {
                        due.pop_front();
                        oldest.0 += 1;
                    }
                    if let Some(file) = outcomes {
                        let line = outcome_line(config.user, id, outcome);
                        if let Err(error) = file.write_all(line.as_bytes()) {
                            written = Err(error);
                        }
                    }
                }
                ClientEvent::Report(report) => {
                    tally.reports += 1;
                    tally.executions += u64::from(matches!(report.output.event, Event::Executed(_)));
                }
                ClientEvent::LoggedIn(login) => {
                    *reconnects += 1;
                    *resent += login.resent;
                    outlook.logged_in(&login, Instant::now());
                }
                ClientEvent::Disconnected(loss) => {
                    outlook.lost(&loss, &mut tally.failovers, Instant::now());
                }
                _ => {}
            }
        });
        written.map_err(|error| CommandError::failed(format!("the outcomes: {error}")))?;
        polled.map_err(connect::failed)?;
        Ok(heard)
    }

    /// Ends the connection, reads all reports of the session again and compares them with what was told.
    ///
    /// # Errors
    /// They are not as they were told, or can't be read.
    pub(super) fn verify(self, patience: Duration) -> Result<Verified, CommandError> {
        let Self { config, client, told, trading_day, .. } = self;
        drop(client);
        verify::session(config, trading_day, &told.unwrap_or_default(), patience)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn pending(&self) -> usize {
        self.client.pending()
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}

fn outcome_line(user: UserName, id: RequestId, outcome: Outcome) -> String {
    match outcome {
        Outcome::Done(number) => format!("{user},{id},done,{number},\n"),
        Outcome::Rejected(number, reason) => format!("{user},{id},rejected,{number},{reason}\n"),
        Outcome::Refused(reason) => format!("{user},{id},refused,,{reason}\n"),
        Outcome::NotProcessed => format!("{user},{id},not_processed,,\n"),
        Outcome::Unknown => format!("{user},{id},unknown,,\n"),
    }
}
