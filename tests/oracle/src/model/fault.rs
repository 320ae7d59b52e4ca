//! Wrong rules, so that a test can show that the comparison notices them.

/// A wrong rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A partly filled maker goes to the end of its queue.
    PartialFillLosesPlace,
    /// A replace to a larger quantity keeps its place.
    LargerReplaceKeepsPlace,
    /// A post-only order may trade at its own price.
    PostOnlyTradesAtTouch,
    /// What an immediate-or-cancel order could not trade rests.
    ImmediateOrCancelRests,
    /// A trade is made at the incoming order's price.
    TakerPrice,
    /// A request id that is repeated is taken.
    RepeatedIdTaken,
    /// Text ids outlive the trading day.
    TextIdsKept,
    /// A login does not stop the timer of cancel-on-disconnect.
    LoginKeepsTimer,
    /// A refilled iceberg keeps its place.
    RefillKeepsPlace,
    /// A hidden order trades before displayed ones that came later.
    HiddenByTime,
    /// Stops enter in the order of their ids, whatever their stop prices.
    StopsByAge,
    /// A trailing stop moves both ways.
    TrailMovesBack,
    /// A pegged order may be at the best opposite price.
    PegMeetsTouch,
    /// The minimum of a resting order is not looked at.
    MinimumForgotten,
    /// Self-trade prevention looks at the resting order's action.
    RestingAction,
    /// Orders of a group live on when one of them trades.
    GroupLivesOn,
    /// Children are activated by a partial fill.
    ChildOfPartialFill,
    /// The quotes of a refused side are canceled.
    RefusedQuotesCanceled,
    /// What pro-rata shares leave goes to the youngest first.
    LeftoverToYoungest,
    /// Of several prices of an uncross the highest is taken, whatever the reference price.
    AuctionTakesHighest,
    /// A trade may be anywhere.
    BandsForgotten,
    /// A delayed end of an auction comes at once.
    EndNotDelayed,
    /// Fees are rounded up.
    FeeRoundedUp,
    /// A cash order holds no fee.
    HoldWithoutFee,
    /// Costs of margin positions stay when a position becomes zero.
    CostStays,
    /// Reduce-only orders are not canceled when their position is gone.
    ReduceOnlyStays,
    /// Waiting orders count nothing in limits.
    LimitsForgetWaiting,
    /// Refused requests count for the throttle.
    ThrottleCountsRefused,
    /// A corrected trade keeps its money.
    CorrectionWithoutMoney,
    /// A kill switch leaves waiting orders alone.
    KillSparesWaiting,
}

impl Fault {
    /// Every one.
    pub const ALL: &'static [Self] = &[
        Self::PartialFillLosesPlace,
        Self::LargerReplaceKeepsPlace,
        Self::PostOnlyTradesAtTouch,
        Self::ImmediateOrCancelRests,
        Self::TakerPrice,
        Self::RepeatedIdTaken,
        Self::TextIdsKept,
        Self::LoginKeepsTimer,
        Self::RefillKeepsPlace,
        Self::HiddenByTime,
        Self::StopsByAge,
        Self::TrailMovesBack,
        Self::PegMeetsTouch,
        Self::MinimumForgotten,
        Self::RestingAction,
        Self::GroupLivesOn,
        Self::ChildOfPartialFill,
        Self::RefusedQuotesCanceled,
        Self::LeftoverToYoungest,
        Self::AuctionTakesHighest,
        Self::BandsForgotten,
        Self::EndNotDelayed,
        Self::FeeRoundedUp,
        Self::HoldWithoutFee,
        Self::CostStays,
        Self::ReduceOnlyStays,
        Self::LimitsForgetWaiting,
        Self::ThrottleCountsRefused,
        Self::CorrectionWithoutMoney,
        Self::KillSparesWaiting,
    ];
}
